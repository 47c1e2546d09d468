-- Of a coordinator: studies, what sites decided, who may look, what aggregators sent.
CREATE TABLE studies (
    hash TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    state TEXT NOT NULL,
    officer TEXT,
    signature TEXT,
    closes INTEGER NOT NULL,
    survivors TEXT,
    release BLOB,
    entry TEXT
);
CREATE TABLE approvals (
    study TEXT NOT NULL,
    site TEXT NOT NULL,
    decision TEXT NOT NULL CHECK (decision IN ('approved', 'refused')),
    note TEXT NOT NULL,
    PRIMARY KEY (study, site)
);
CREATE TABLE people (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('officer', 'analyst')),
    salt TEXT NOT NULL,
    password TEXT NOT NULL
);
CREATE TABLE agreed (
    study TEXT NOT NULL,
    role TEXT NOT NULL,
    signature TEXT NOT NULL,
    PRIMARY KEY (study, role)
);
CREATE TABLE sums (
    study TEXT NOT NULL,
    role TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (study, role)
);
