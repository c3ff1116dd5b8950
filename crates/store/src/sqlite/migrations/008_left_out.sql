-- How many slots of a schedule were last left out, until when, and why.
ALTER TABLE schedules ADD COLUMN left_out TEXT;
