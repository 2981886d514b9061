/*
 * backup: a copy of all pages on a local disk. Pages are copied to the disk after their writes complete, and are read
 * from the disk only if no donor has them.
 *
 * Theory of operation. When donors have completed a write, the queue copies its pages into a ring (backup_put(),
 * backup_ring.h). The backup's own thread writes them from the ring to the disk (backup_disk.h) in batches. A batch
 * contains the newest copy of each page, and neighbouring pages become one operation. The next batch begins only when
 * the disk has finished the current batch. So no page is in flight twice, and an older copy never overwrites a newer
 * copy.
 *
 * If a page finds the ring full, or the disk refuses it, the page is "missed". The rebuild thread later reads missed
 * pages from donors and puts them into the ring (rebuild_backup.h). So a slow disk takes no more memory and delays no
 * write to donors: more pages are missed instead. The backup's thread warns of this at most every ten seconds.
 *
 * There is no list of the pages on the disk. The checksum and generation of a page (integrity.h) show if the disk has
 * the bytes of the page's last write.
 *
 * KEPT pages. When the last replica of a page is lost, the page is KEPT (integrity.h): only the disk or the ring
 * has it. Queues hand reads of KEPT pages, and reads that no donor has answered correctly, to the backup's thread
 * (backup_ask(), far_backup.h). The thread copies pages that are in the ring, reads the others from the disk, and
 * wakes the queue. The rebuild thread copies KEPT pages back to donors.
 *
 * Writes to the backup alone. Some writes find no donor with a free slab, or their chunk is leaving for the backup
 * (chunks.h). The queue hands these writes to the backup's thread. As soon as the ring has room, the thread puts the
 * pages into the ring, after older copies of the same pages. The thread answers when all these pages have left the
 * ring. By then each page is on the disk, or the disk has refused it.
 *
 * After a crash, the ring is gone. The process that adopts the store counts all live pages as missed, and copies
 * them again. A KEPT page whose copy was in the ring is lost, because the bytes on the disk do not match its
 * checksum.
 *
 * backup_step() does all work of the thread. It never waits and reads no clock.
 *
 * Threads. The backup's thread blocks all signals. Any queue's thread may call backup_put() and backup_ask(), and
 * the answer to backup_ask() goes back to that queue. Nothing is allocated after backup_open().
 */
#ifndef CLIENT_BACKUP_H
#define CLIENT_BACKUP_H

#include "client/backup/backup_disk.h"
#include "client/backup/backup_ring.h"
#include "client/far_store.h"

/* The most pages in a queue's read or write. */
#define BACKUP_IO_PAGES 16u
#define BACKUP_READS 16u
/* The most pages in a batch. */
#define BACKUP_BATCH 1024u

/* A queue's request. The queue owns the memory, and the backup uses the memory until it calls @answer. */
struct backup_io {
	struct backup_io *next;
	void (*answer)(struct backup_io *io); /* called by the backup's thread when `status` is set */
	struct far_queue *queue;
	uint64_t page;
	uint32_t count; /* 1 .. BACKUP_IO_PAGES */
	uint16_t piece;
	bool write;
	bool kept; /* a read of pages that are KEPT */
	uint8_t *data;
	int status; /* the result: 0 or -EIO. The bytes of a read are not checked yet. */
	/* Only the backup's thread uses the fields below. */
	uint32_t there; /* reads: pages that were found in the ring, one bit each */
	uint32_t put;   /* writes: number of pages that were put into the ring */
	uint64_t from;  /* writes: backup_ring_put_count() before the first page was put in */
	uint64_t until; /* writes: backup_ring_put_count() after the last page was put in, or 0 before that */
};

struct backup_list {
	struct backup_io *first, *last;
};

struct backup {
	struct far *far;
	struct seal *seal; /* for the backup's thread; NULL if pages are not sealed */
	struct backup_disk *disk;
	struct backup_ring ring;
	_Atomic(struct backup_io *) asked; /* a stack of requests that the backup's thread has not taken yet */
	_Atomic bool overflown;            /* some pages have found the ring full */
	_Atomic uint64_t bad_until;        /* the disk refused pages: no missed page is read back before this time */
	_Atomic bool asleep;               /* the thread sleeps until `wake` is written */
	int wake;                          /* eventfd */
	_Atomic bool stop;
	pthread_t thread;
	bool started;
	/* Only the backup's thread uses the fields below. */
	struct backup_list to_read;            /* reads that were not begun */
	struct backup_list writes;             /* unanswered writes, in the order in which they enter the ring */
	struct backup_io *reads[BACKUP_READS]; /* reads in flight; NULL if free */
	uint8_t *bytes;
	unsigned reading;
	uint64_t batch;   /* number of copies in the current batch, or 0 for none */
	unsigned extents; /* number of operations in the batch */
	unsigned begun;   /* extents that are in flight or done */
	unsigned done;
	unsigned in_flight;          /* disk operations in flight, writes and reads */
	uint64_t due;                /* when the next batch may begin */
	_Atomic uint64_t told_slow;  /* when a slow disk was last logged; 0 if all pages are on the disk again */
	_Atomic uint64_t told_error; /* when an error was last logged; 0 if all pages are on the disk again */
	struct {
		uint32_t piece; /* index in `pieces` of its first page */
		uint32_t count;
	} extent[BACKUP_BATCH];       /* runs of neighbouring pages, each one operation */
	uint64_t order[BACKUP_BATCH]; /* the batch's pages in order, with their places in the ring (backup.c) */
	struct iovec pieces[BACKUP_BATCH];
};

/* Opens the backup of a store whose size is known. Returns 0, -ENOMEM, or an error of backup_disk_open(). Errors
   are logged. */
int backup_open(struct far *far, struct backup **ret_backup);
/* Frees the backup, which no thread may use any more. If @keep is true, the backup's file stays for another process.
   NULL is allowed. */
void backup_close(struct backup *backup, bool keep);
/* backup_start() starts the backup's thread, and returns 0 or -errno. backup_stop() ends it. If another process is
   to adopt the store, backup_stop() first waits until the ring is empty. NULL is allowed. */
int backup_start(struct backup *backup);
void backup_stop(struct backup *backup);
/* Does the thread's work at @now. Returns when to call this again. UINT64_MAX means: when `wake` or the disk's
   descriptor is readable. */
uint64_t backup_step(struct backup *backup, uint64_t now);
/* Returns true if the thread was told to stop and has no work left. */
bool backup_is_over(const struct backup *backup);

/* Copies the pages of a completed write into the ring. Pages for which the ring has no room are missed. */
void backup_put(struct backup *backup, uint64_t page, uint32_t count, const void *data);
/* Puts a missed page, read from donors again, into the ring. If the ring has no room, the page stays missed. */
void backup_put_again(struct backup *backup, uint64_t page, const void *data);
void backup_ask(struct backup *backup, struct backup_io *io);
/* Returns how many pages are not on the disk yet. */
uint64_t backup_behind(const struct backup *backup);
uint64_t backup_memory(const struct backup *backup);

#endif
