-- Only those in this state have steps that can be claimed; of some of them workers have all.
SELECT * FROM workflows WHERE state = 'steps_in_process' ORDER BY rank DESC, seq
