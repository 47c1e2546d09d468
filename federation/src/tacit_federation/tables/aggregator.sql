-- Of an aggregator: studies with what both have said of them, whom it joined, and proofs.
CREATE TABLE studies (
    hash TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    role TEXT NOT NULL,
    state TEXT NOT NULL,
    officer TEXT NOT NULL,
    signature TEXT NOT NULL,
    closes INTEGER NOT NULL,
    agreed TEXT,
    told TEXT NOT NULL DEFAULT '',
    held TEXT,
    peer_held TEXT,
    survivors TEXT,
    entry TEXT,
    sum BLOB,
    lock TEXT,
    peer_lock TEXT,
    peer_sum BLOB
);
CREATE TABLE parties (
    url TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    ca TEXT NOT NULL,
    key TEXT NOT NULL,
    officers TEXT NOT NULL
);
CREATE TABLE evidence (
    study TEXT NOT NULL,
    kind TEXT NOT NULL,
    kept TEXT NOT NULL,
    another TEXT NOT NULL UNIQUE
);
