-- A log of which each line names the one before it.
CREATE TABLE audit (
    sequence INTEGER PRIMARY KEY CHECK (sequence > 0),
    line TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE
);
