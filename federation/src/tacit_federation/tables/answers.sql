-- Of whoever takes answers: who gave one, who withdrew, and a clock that never goes back.
CREATE TABLE answers (
    study TEXT NOT NULL,
    site TEXT NOT NULL,
    sharing TEXT NOT NULL UNIQUE,
    receipt TEXT NOT NULL,
    dropped TEXT,
    PRIMARY KEY (study, site)
);
CREATE TABLE withdrawals (
    study TEXT NOT NULL,
    site TEXT NOT NULL,
    PRIMARY KEY (study, site)
);
CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), latest REAL NOT NULL);
INSERT INTO clock VALUES (1, 0);
