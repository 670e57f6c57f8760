module expectations

go 1.18
