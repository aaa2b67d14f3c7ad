-- Wayfarer Lane, a travel company that does not exist: night trains and ferries in the north.

CREATE TABLE customers (
    id      TEXT PRIMARY KEY,
    name    TEXT NOT NULL,
    email   TEXT NOT NULL UNIQUE,
    phone   TEXT NOT NULL
);

CREATE TABLE departures (
    id           TEXT PRIMARY KEY,
    line         TEXT NOT NULL,
    origin       TEXT NOT NULL,
    destination  TEXT NOT NULL,
    leaves       TEXT NOT NULL,  -- local time
    arrives      TEXT NOT NULL,
    berths_left  INTEGER NOT NULL CHECK (berths_left >= 0)
);

CREATE TABLE bookings (
    id            TEXT PRIMARY KEY,
    customer_id   TEXT NOT NULL REFERENCES customers (id),
    departure_id  TEXT NOT NULL REFERENCES departures (id),
    travellers    INTEGER NOT NULL,
    status        TEXT NOT NULL DEFAULT 'confirmed'
);

CREATE TABLE invoices (
    id          TEXT PRIMARY KEY,
    booking_id  TEXT NOT NULL REFERENCES bookings (id),
    purpose     TEXT NOT NULL,
    cents       INTEGER NOT NULL
);

CREATE TABLE payments (
    id          TEXT PRIMARY KEY,
    invoice_id  TEXT NOT NULL REFERENCES invoices (id),
    cents       INTEGER NOT NULL,
    paid_on     TEXT NOT NULL,
    refund      TEXT  -- reference of the refund, if it was given back
);

CREATE TABLE tickets (
    id           TEXT PRIMARY KEY,
    customer_id  TEXT NOT NULL REFERENCES customers (id),
    subject      TEXT NOT NULL,
    details      TEXT NOT NULL,
    priority     TEXT NOT NULL
);

INSERT INTO customers VALUES
    ('C-1042', 'Nora Lindqvist', 'nora.lindqvist@example.com', '+46 70 555 01 42'),
    ('C-1077', 'Tomasz Wilk',    'tomasz.wilk@example.com',    '+48 22 555 01 77'),
    ('C-1101', 'Ines Carvalho',  'ines.carvalho@example.com',  '+351 21 555 1101');

INSERT INTO departures VALUES
    ('D-411', 'Night train', 'Hamburg',   'Stockholm', '2030-09-12 20:05', '2030-09-13 10:12', 4),
    ('D-412', 'Night train', 'Hamburg',   'Stockholm', '2030-09-13 20:05', '2030-09-14 10:12', 1),
    ('D-413', 'Night train', 'Hamburg',   'Stockholm', '2030-09-14 20:35', '2030-09-15 10:41', 6),
    ('D-530', 'Ferry',       'Stockholm', 'Turku',     '2030-09-15 20:10', '2030-09-16 07:00', 38),
    ('D-531', 'Ferry',       'Stockholm', 'Turku',     '2030-09-16 20:10', '2030-09-17 07:00', 52),
    ('D-702', 'Night train', 'Oslo',      'Bodø',      '2030-07-02 23:00', '2030-07-03 17:20', 9);

INSERT INTO bookings (id, customer_id, departure_id, travellers) VALUES
    ('WL-2041', 'C-1042', 'D-411', 2),
    ('WL-2057', 'C-1042', 'D-530', 2),
    ('WL-1988', 'C-1077', 'D-702', 1),
    ('WL-2060', 'C-1101', 'D-531', 4);

INSERT INTO invoices VALUES
    ('INV-3307', 'WL-2041', 'Night train Hamburg – Stockholm, 2 berths', 31800),
    ('INV-3319', 'WL-2057', 'Ferry Stockholm – Turku, 2 berths',         14650),
    ('INV-3244', 'WL-1988', 'Night train Oslo – Bodø, 1 berth',           9900),
    ('INV-3322', 'WL-2060', 'Ferry Stockholm – Turku, 4 berths',         27200);

INSERT INTO payments VALUES
    ('P-8801', 'INV-3307', 31800, '2030-06-01', NULL),
    ('P-8802', 'INV-3307', 31800, '2030-06-01', NULL),
    ('P-8815', 'INV-3319', 14650, '2030-06-02', NULL),
    ('P-8617', 'INV-3244',  9900, '2030-04-20', NULL),
    ('P-8818', 'INV-3322', 27200, '2030-06-02', NULL);
