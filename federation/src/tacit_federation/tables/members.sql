-- Who was invited, who enrolled, and with which certificates.
CREATE TABLE invitations (
    token TEXT PRIMARY KEY,
    member TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('site', 'analyst', 'aggregator')),
    expires INTEGER NOT NULL,
    used INTEGER,
    fingerprint TEXT
);
CREATE TABLE members (
    id TEXT PRIMARY KEY,
    role TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE,
    enrolled INTEGER NOT NULL,
    revoked INTEGER
);
CREATE TABLE certificates (
    fingerprint TEXT PRIMARY KEY,
    member TEXT NOT NULL REFERENCES members (id),
    pem TEXT NOT NULL
);
