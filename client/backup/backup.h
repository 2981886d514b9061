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
 * only leaves pages unsaved. A warning about this is logged at most every ten seconds.
 *
 * There is no list of the pages on the disk. The checksum and generation of a page (integrity.h) show if the bytes on
 * the disk are those of its last write.
 *
 * When the last replica of a page goes, the page is KEPT (integrity.h): only the disk, or the ring, still has it.
 * Queues hand reads of KEPT pages, and reads that no donor has answered correctly, to the backup's thread
 * (far_backup.h). The thread copies pages that are in the ring, reads the rest from the disk, and wakes the queue. The
 * rebuild thread brings KEPT pages back to donors.
 *
 * A killed process takes its ring with it. The process that adopts the store counts all live pages as missed, and
 * copies them again. A KEPT page whose copy was in the ring does not match its checksum, and is lost.
 *
 * A queue also hands a write to the backup's thread if no donor has room for it, or if its chunk leaves for the backup
 * (chunks.h). The thread puts the pages into the ring, behind older copies of them, as soon as there is room. The
 * thread answers when all of these pages have left the ring. Each page is then on the disk, and KEPT, or the disk
 * refused it.
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

/* The most pages of one read or write of a queue. */
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
	int status; /* the result: -EIO, or 0. The bytes of a read are not checked yet. */
	/* The backup thread's own. */
	uint32_t there; /* of a read: the pages found in the ring, one bit each */
	uint32_t put;   /* of a write: how many of its pages were put into the ring */
	uint64_t from;  /* of a write: backup_ring_put_count() before its first page was put in */
	uint64_t until; /* of a write: backup_ring_put_count() after its last page, or 0 before that */
};

struct backup_list {
	struct backup_io *first, *last;
};

struct backup {
	struct far *far;
	struct seal *seal; /* used by the backup's thread; NULL unless pages are sealed */
	struct backup_disk *disk;
	struct backup_ring ring;
	_Atomic(struct backup_io *) asked; /* a stack of requests that the thread has not taken yet */
	_Atomic bool overflown;            /* some pages found the ring full */
	_Atomic uint64_t bad_until;        /* the disk refused pages: no missed page is read back before this time */
	_Atomic bool asleep;               /* the thread sleeps until it is woken */
	int wake;                          /* eventfd */
	_Atomic bool stop;
	pthread_t thread;
	bool started;
	/* The backup thread's own. */
	struct backup_list to_read;            /* reads not yet begun */
	struct backup_list writes;             /* not yet answered, in the order in which they go into the ring */
	struct backup_io *reads[BACKUP_READS]; /* NULL if free */
	uint8_t *bytes;                        /* the buffer of `reads` */
	unsigned reading;
	uint64_t batch;   /* copies in the current batch, or 0 for none */
	unsigned extents; /* extents in the batch */
	unsigned begun;   /* extents in flight or done */
	unsigned done;
	unsigned in_flight;          /* operations of the disk, writes and reads */
	uint64_t due;                /* when the next batch may begin */
	_Atomic uint64_t told_slow;  /* when a slow disk was last logged; 0 again once all pages are on the disk */
	_Atomic uint64_t told_error; /* when an error was last logged; 0 again once all pages are on the disk */
	struct {
		uint32_t piece; /* index of the extent's first piece */
		uint32_t count;
	} extent[BACKUP_BATCH];       /* pages that are neighbours on the disk */
	uint64_t order[BACKUP_BATCH]; /* pages, with their places in the batch (backup.c) */
	struct iovec pieces[BACKUP_BATCH];
};

/* Opens the backup of a store whose size is known. Errors are logged. Returns 0, -ENOMEM, or an error of
   backup_disk_open(). */
int backup_open(struct far *far, struct backup **ret_backup);
/* Frees the backup. Nothing may use it any more. With @keep, its file stays for another process. Takes NULL. */
void backup_close(struct backup *backup, bool keep);
/* backup_start() starts the backup's thread, and returns 0 or -errno. backup_stop() ends the thread. If another process
   is to adopt the store, backup_stop() first waits until the ring is empty. Both take NULL. */
int backup_start(struct backup *backup);
void backup_stop(struct backup *backup);
/* Does the thread's work at @now. Returns the time of the next call. UINT64_MAX means: when `wake` or the disk is
   readable. */
uint64_t backup_step(struct backup *backup, uint64_t now);
/* Returns true if the thread was told to stop and has nothing left to do. */
bool backup_is_over(const struct backup *backup);

/* Copies pages that were just written into the ring. Pages without room are missed. */
void backup_put(struct backup *backup, uint64_t page, uint32_t count, const void *data);
/* Puts a missed page that was read back into the ring, if there is room. */
void backup_put_again(struct backup *backup, uint64_t page, const void *data);
void backup_ask(struct backup *backup, struct backup_io *io);
/* Returns the number of pages that are not on the disk yet. */
uint64_t backup_behind(const struct backup *backup);
uint64_t backup_memory(const struct backup *backup);

#endif
