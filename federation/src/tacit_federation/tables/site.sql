-- Of a site: servers that it joined, studies that it has seen, and what it has to send.
CREATE TABLE servers (
    url TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    ca TEXT NOT NULL,
    key TEXT NOT NULL,
    length INTEGER NOT NULL,
    head TEXT NOT NULL
);
CREATE TABLE studies (
    hash TEXT PRIMARY KEY,
    server TEXT NOT NULL,
    text TEXT NOT NULL,
    officer TEXT NOT NULL,
    signature TEXT NOT NULL,
    agreed TEXT NOT NULL DEFAULT '{}',
    state TEXT NOT NULL,
    closes INTEGER NOT NULL,
    remote TEXT NOT NULL,
    told TEXT NOT NULL DEFAULT '',
    send_at INTEGER,
    sharing TEXT,
    release BLOB
);
CREATE TABLE parcels (
    study TEXT NOT NULL REFERENCES studies (hash),
    role TEXT NOT NULL,
    receipt TEXT,
    PRIMARY KEY (study, role)
);
