-- Threads that we open ourselves: a surface of kind 'thread' stands for one, and its message is the thread's root.
-- Until the thread is open, what is to go there is planned for a thread with the surface's token as its name.

ALTER TABLE surfaces ADD COLUMN title TEXT;
-- planned: nothing was asked of the platform; opening: it may be open; open: as `opened`; parent: the platform opens none
-- for us; unknown: nobody can say, and the parent is used.
ALTER TABLE surfaces ADD COLUMN stage TEXT CHECK (stage IN ('planned', 'opening', 'open', 'parent', 'unknown'));
ALTER TABLE surfaces ADD COLUMN opened TEXT;

CREATE INDEX surfaces_to_open ON surfaces (platform, account, chat) WHERE stage IN ('planned', 'opening');
