-- The jobs of a user, in the order of seq, which is the last column of the index. Most jobs have no user: for these the
-- index costs nothing but the look whether they have one.
CREATE INDEX specs_by_user ON specs (tenant_id, user) WHERE user IS NOT NULL;
