"""The sealed tier: closed ledgers as Parquet files of Delta tables, which other engines read."""
