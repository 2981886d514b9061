/*
 * backup: a copy of all pages on a local disk. Pages are copied there after their writes complete, and are read there
 * only when no donor has them.
 *
 * Theory of operation. When donors have completed a write, its pages are copied into a ring (backup_ring.h). The
 * backup's own thread writes them from there to the disk (backup_disk.h), in batches. A batch holds the newest copy of
 * each page, and writes neighbouring pages together. The next batch begins when the whole batch is done. So a later
 * write reaches the disk later, and no page is ever in flight twice.
 *
 * A page is "missed" if it found the ring full, or if the disk refused it. The rebuild thread reads missed pages back
 * from donors (rebuild_backup.h) and puts them into the ring. A disk that is too slow costs neither memory nor time. It
 * only leaves pages unsaved, and a warning says so at most every ten seconds.
 *
 * Nobody keeps a list of what is on the disk. Checksum and generation (integrity.h) tell if a page that was read is as
 * the last write left it.
 *
 * When the last replica of a page goes, the page is KEPT (integrity.h): only the disk, or the ring, still has it.
 * Queues hand reads of KEPT pages, and reads that no donor has answered correctly, to the backup's thread
 * (far_backup.h). The thread copies pages that are in the ring, reads the rest from the disk, and wakes the queue. The
 * rebuild thread brings KEPT pages back to donors.
 *
 * A killed process takes its ring with it. The process that adopts the store counts all live pages as missed, and
 * copies them again. A KEPT page whose copy was in the ring does not match its checksum, and is lost.
 *
 * When no donor has room for a write, the queue hands the write to the backup's thread, too. So it does when the chunk
 * leaves for the backup (chunks.h). The thread puts the pages into the ring, behind older copies of them, as soon as
 * there is room. It answers when all of them have left the ring: then they are on the disk, or the disk refused them.
 * Pages on the disk are KEPT from then on.
 *
 * backup_step() does all of this. It never waits and reads no clock.
 *
 * Threads. The backup has a thread of its own, which blocks all signals. Any queue's thread may call backup_put() and
 * backup_ask(). The answer to backup_ask() goes back to that queue. Nothing is allocated after backup_open().
 */
#ifndef CLIENT_BACKUP_H
#define CLIENT_BACKUP_H

#include "client/backup/backup_disk.h"
#include "client/backup/backup_ring.h"
#include "client/far_store.h"

/* The longest run, in pages, that one read or one write of a queue covers. */
#define BACKUP_IO_PAGES 16u
#define BACKUP_READS 16u
/* Pages in a batch. */
#define BACKUP_BATCH 1024u

/* A queue's request. The queue owns the memory. The backup uses it until it has called @answer. */
struct backup_io {
	struct backup_io *next;
	void (*answer)(struct backup_io *io); /* the backup's thread calls it once `status` is set */
	struct far_queue *queue;              /* for @answer */
	uint64_t page;
	uint32_t count; /* 1 .. BACKUP_IO_PAGES */
	uint16_t piece;
	bool write;
	bool kept; /* a read of KEPT pages */
	uint8_t *data;
	int status; /* 0 (read, not yet checked; written to the disk) or -EIO */
	/* The backup thread's own. */
	uint32_t there; /* a read: the pages that were in the ring, one bit each */
	uint32_t put;   /* a write: pages already in the ring */
	uint64_t from;  /* a write: backup_ring_put_count() before its first page */
	uint64_t until; /* a write: the same after its last page, or 0 until all are in the ring */
};

struct backup_list {
	struct backup_io *first, *last;
};

struct backup {
	struct far *far;
	struct seal *seal; /* NULL unless pages are sealed; its thread's */
	struct backup_disk *disk;
	struct backup_ring ring;
	_Atomic(struct backup_io *) asked; /* a stack */
	_Atomic bool overflown;            /* some pages found the ring full */
	_Atomic uint64_t bad_until;        /* no missed page is read back before: the disk refused some */
	_Atomic bool asleep;               /* the thread sleeps until it is woken */
	int wake;                          /* eventfd */
	_Atomic bool stop;
	pthread_t thread;
	bool started;
	/* The backup thread's own. */
	struct backup_list to_read;            /* reads not yet begun */
	struct backup_list writes;             /* not yet answered, in the order in which they go into the ring */
	struct backup_io *reads[BACKUP_READS]; /* NULL if free */
	uint8_t *bytes;                        /* buffer of the reads */
	unsigned reading;
	uint64_t batch;   /* copies in the current batch, or 0 for none */
	unsigned extents; /* of the batch */
	unsigned begun;   /* extents in flight or done */
	unsigned done;
	unsigned in_flight;          /* writes and reads */
	uint64_t due;                /* when the next batch may begin */
	_Atomic uint64_t told_slow;  /* last warning; 0 if none since all was on the disk */
	_Atomic uint64_t told_error; /* likewise, the last error */
	struct {
		uint32_t piece; /* index of its first piece */
		uint32_t count;
	} extent[BACKUP_BATCH];       /* pages that are neighbours on the disk */
	uint64_t order[BACKUP_BATCH]; /* pages, with their places in the batch (backup.c) */
	struct iovec pieces[BACKUP_BATCH];
};

/* Opens the backup of a store whose size is known. Errors are logged. Returns 0, -ENOMEM, or an error of
   backup_disk_open(). */
int backup_open(struct far *far, struct backup **ret_backup);
/* Frees the backup, which nothing uses any more. @keep leaves its file to another process. Takes NULL. */
void backup_close(struct backup *backup, bool keep);
/* Start and end the backup's thread. If the store is left to another process, backup_stop() waits until the ring is
   empty. Both take NULL. backup_start() returns 0 or -errno. */
int backup_start(struct backup *backup);
void backup_stop(struct backup *backup);
/* Does the thread's work at @now. Returns when to call it again, or UINT64_MAX: when `wake` or the disk is readable. */
uint64_t backup_step(struct backup *backup, uint64_t now);
/* Returns true if the thread was told to stop and has nothing left to do. */
bool backup_is_over(const struct backup *backup);

/* Copies pages that were just written into the ring. Pages without room are missed. */
void backup_put(struct backup *backup, uint64_t page, uint32_t count, const void *data);
/* Puts in a missed page that was read back, if there is room. */
void backup_put_again(struct backup *backup, uint64_t page, const void *data);
void backup_ask(struct backup *backup, struct backup_io *io);
/* Returns the number of pages that are not on the disk yet. */
uint64_t backup_behind(const struct backup *backup);
uint64_t backup_memory(const struct backup *backup);

#endif
