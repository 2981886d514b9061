/*
 * backup: a copy of all pages on a local disk, made behind the writes' back, and read only when no donor has a page.
 *
 * Theory of operation. When a write is complete on donors its pages are copied into a ring (backup_ring.h), and a
 * thread of the backup's own writes them to the disk (backup_disk.h), in batches: of a page that is there more than
 * once the newest, neighbours together, the next batch when all of one is there. So what is written later is on the
 * disk later, and nothing is ever in flight twice. Pages that found the ring full, or that the disk refused, are
 * missed: the rebuild thread reads them back from donors (rebuild_backup.h), and puts them in. A disk that does not
 * keep up costs neither memory nor time, but pages that are not yet saved; a line in the log tells, once in a while.
 *
 * What is on the disk nobody keeps books of: checksum and generation (integrity.h) tell whether what was read is what
 * the last write left.
 *
 * When the last replica of pages goes they are KEPT (integrity.h): on the disk, or on their way to it, alone. Queues
 * hand reads of such pages, and those that no donor has answered right, to the backup's thread (far_backup.h): it
 * copies what is in the ring, reads the rest, and wakes the queue. The rebuild thread brings KEPT pages back to donors.
 *
 * Where no donor has room for a write, the queue hands that to the thread, too: it puts the pages into the ring, behind
 * whatever is there of them, as soon as there is room, and answers when all of them have been taken out of it, which is
 * when they are on the disk. They are KEPT from then on.
 *
 * All that is backup_step(), which never waits and reads no clock.
 *
 * Threads. Its own, which blocks all signals; backup_put: any queue's; backup_ask: likewise, and the answer goes back
 * there. Nothing is allocated after backup_open(), all memory is there from then on.
 */
#ifndef CLIENT_BACKUP_H
#define CLIENT_BACKUP_H

#include "client/backup_disk.h"
#include "client/backup_ring.h"
#include "client/far_store.h"

/* Longest run that is read, or written for a queue, at once, in pages. */
#define BACKUP_IO_PAGES 16u
#define BACKUP_READS 16u
/* Pages of a batch. */
#define BACKUP_BATCH 1024u

/* A queue's; of the queue until it is answered, with far->lock held, through far_backup_answer(). */
struct backup_io {
	struct backup_io *next;
	struct far_queue *queue;
	uint64_t page;
	uint32_t count; /* 1 .. BACKUP_IO_PAGES */
	uint16_t piece;
	bool write;
	bool kept; /* of a read: there alone */
	uint8_t *data;
	int status; /* 0: a read's is to be checked, a write's is on the disk; -EIO */
	/* The thread's own, of a write. */
	uint32_t put;         /* pages in the ring */
	uint64_t from, until; /* its places there, others' among them */
};

struct backup_list {
	struct backup_io *first, *last;
};

struct backup {
	struct far *far;
	struct seal *seal; /* where pages are sealed; its thread's */
	struct backup_disk *disk;
	struct ring ring;
	_Atomic(struct backup_io *) asked; /* a stack */
	_Atomic uint64_t catching;         /* pages that the rebuild thread is about to put in */
	_Atomic bool overflown;            /* pages found the ring full */
	_Atomic uint64_t bad_until;        /* the disk has refused some: nothing is read back for it before */
	_Atomic bool asleep;               /* until it is woken */
	int wake;                          /* eventfd */
	_Atomic bool stop;
	pthread_t thread;
	bool started;
	/* The thread's own. */
	struct backup_list to_read; /* asked, and not yet begun */
	struct backup_list to_put;  /* writes, not all in the ring */
	struct backup_list put;     /* and those that are, by their places */
	struct {
		struct backup_io *read; /* NULL: free */
		uint32_t there;         /* pages that were in the ring, a bit each */
	} reads[BACKUP_READS];
	uint8_t *bytes; /* of the reads */
	unsigned reading;
	uint64_t batch;   /* copies in it; 0: none is under way */
	unsigned extents; /* of it */
	unsigned begun;   /* of these: in flight, or done */
	unsigned done;
	unsigned in_flight;          /* reads, too */
	uint64_t due;                /* the next batch */
	_Atomic uint64_t told_slow;  /* when that was last logged; 0: not since all was on the disk */
	_Atomic uint64_t told_error; /* likewise */
	struct {
		uint64_t first;
		uint32_t count;
		uint32_t piece; /* the first of its pieces */
	} extent[BACKUP_BATCH];
	uint64_t order[BACKUP_BATCH]; /* page << 10 | place in the batch */
	struct iovec pieces[BACKUP_BATCH];
};

/* For the store, whose size is known. Errors are logged. -ENOMEM, or what backup_disk_open() says. */
int backup_open(struct far *far, struct backup **ret_backup);
/* Nothing asks it any more. Takes NULL. */
void backup_close(struct backup *backup, bool keep);
/* Starts and ends its thread. What is in the ring is waited for when it is left to another process. Both take NULL. */
int backup_start(struct backup *backup);
void backup_stop(struct backup *backup);
/* What its thread does; returns when to be called again (UINT64_MAX: when something comes). */
uint64_t backup_step(struct backup *backup, uint64_t now);
/* Whether it is to be stopped, and has nothing to do any more. */
bool backup_is_over(const struct backup *backup);

/* These pages were written. Returns whether there was room for all of them. */
bool backup_put(struct backup *backup, uint64_t page, uint32_t count, const void *data);
/* The same of a page that was read back, @again (backup_ring.h). */
bool backup_put_again(struct backup *backup, uint64_t page, const void *data);
void backup_ask(struct backup *backup, struct backup_io *io);
/* For the rebuild thread, when it has put in what was missed. */
void backup_caught(struct backup *backup, uint32_t count);
/* Pages that are not on the disk yet. */
uint64_t backup_behind(const struct backup *backup);
uint64_t backup_memory(const struct backup *backup);

#endif
