-- What models have cost, by UTC day and by the binding of the places where it was spent; '' stands for the whole gateway.
CREATE TABLE spending (
    day TEXT NOT NULL,
    binding TEXT NOT NULL,
    usd REAL NOT NULL CHECK (usd >= 0),
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    PRIMARY KEY (day, binding)
) STRICT, WITHOUT ROWID;
