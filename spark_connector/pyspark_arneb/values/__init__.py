"""Values with a type: what the option ``valueAs`` makes of bodies and payloads."""
