-- The jobs of a user, in the order of seq. Most jobs have no user, and are not in the index.
CREATE INDEX specs_by_user ON redrive.specs (tenant_id, user_name, seq) WHERE user_name IS NOT NULL;
