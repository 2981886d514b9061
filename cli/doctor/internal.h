/*
 * internal: the structs and functions that the files of `farpage doctor` share.
 *
 * Theory of operation. checks.c has a table of all checks. A row names a function that reads facts about the host, a
 * function that judges these facts, and the texts for the user. doctor.c goes through the table twice. First it calls
 * all reading functions, which write facts to struct host. Then it calls the judging functions, once for the host or
 * once for each device, port or donor. A judging function gets only struct host, so a test can judge a host that it
 * has made up. No check changes the host.
 *
 * Each layer calls only layers below it:
 * - doctor.c
 * - checks.c
 * - the subjects: doctor_rdma.c, doctor_faults.c, ...; doctor_safety.c also calls doctor_swap.c, which calls
 *   doctor_devices.c
 * - verdict.c, facts.c, doctor_print.c
 *
 * Threads: one, except that doctor_donors_read() starts and joins its own.
 */
#ifndef CLI_DOCTOR_INTERNAL_H
#define CLI_DOCTOR_INTERNAL_H

#include "blockdev/devices.h"
#include "client/donor/operate.h"
#include "client/far.h"
#include "common/config.h"
#include "common/size.h"
#include "fabric/devices.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* --- Verdicts ---------------------------------------------------------------------------------------------------- */

#define VERDICT_TEXT_MAX 320

enum verdict_status {
	PASS,
	WARN,  /* farpage works, but could work better */
	FAIL,  /* a requested thing, or a thing that every use needs, does not work */
	SKIP,  /* not requested, or it does not apply to this host */
	FAULT, /* checks_judge() changes it into FAIL if the check's purpose was requested, otherwise into WARN */
};

struct verdict {
	enum verdict_status status;
	char found[VERDICT_TEXT_MAX];
	char mend[VERDICT_TEXT_MAX]; /* what to do next */
	bool mend_is_usual;          /* check.mend is shown in place of `mend` */
};

/* Returns "pass", "warn", ... */
const char *verdict_name(enum verdict_status status);
/* Returns a verdict. @format and the arguments after it are its text, as for printf(3). The first line of the text is
   the finding. A second line says what to do next, in place of check.mend. If the second line is empty, nothing is
   shown. */
struct verdict verdict_of(enum verdict_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define PASS(...) verdict_of(PASS, __VA_ARGS__)
#define WARN(...) verdict_of(WARN, __VA_ARGS__)
#define FAIL(...) verdict_of(FAIL, __VA_ARGS__)
#define SKIP(...) verdict_of(SKIP, __VA_ARGS__)
#define FAULT(...) verdict_of(FAULT, __VA_ARGS__)
/* Formats a size as an argument of verdict_of(). */
#define SIZE(bytes) size_format(bytes, (char[SIZE_TEXT_MAX]){0})
/* Returns a warning that reading @what has failed with @error (-errno). */
struct verdict verdict_unread(const char *what, int64_t error);

/* --- Facts ------------------------------------------------------------------------------------------------------- */

/* Reads the beginning of a file without its last newline. Returns 0, or -errno with @text empty. */
int facts_text(const char *path, char *text, size_t size);
/* Returns the number in a file that contains nothing else, or -errno. */
int64_t facts_number(const char *path);
/* Reads the line "Name: text" of a file like /proc/meminfo, without the name. Returns false if there is none. */
bool facts_line(const char *path, const char *name, char *text, size_t size);
/* Returns the number in the line "Name: number" of a file, in the file's unit, or 0 if there is no such line. */
uint64_t facts_field(const char *path, const char *name, int base);
/* Returns 0 if this process may open the file for reading and writing, otherwise -errno. */
int facts_open(const char *path);
/* Returns true if the kernel @release, as from uname(2), is this version or a newer one. */
bool facts_release_is(const char *release, unsigned major, unsigned minor);

/* The result of one conversation with one donor. */
struct probe {
	const char *uri;
	int status;                     /* 0, or -errno if it failed */
	struct operate_refusal refusal; /* the donor's refusal, if it refused */
	char peer[64];                  /* the address at which the donor was reached: "rdma://10.0.0.7:7470" */
	uint64_t connect_ns;            /* time until the end of the handshake */
	unsigned rounds;                /* control messages answered after the handshake */
	uint64_t round_ns, worst_ns;    /* median and longest of these rounds */
	struct far_donor_info figures;
};

/* The kinds of paths to a donor. WAY_SOFT_RDMA is an RDMA device that software emulates. */
enum way { WAY_RDMA, WAY_SOFT_RDMA, WAY_TCP };

#define LEFT_MAX 64
struct left {
	const char *name, *path; /* `path` is NULL if the device was never made */
	const char *use;         /* "swap space", "mounted on /mnt"; NULL if unused */
	bool served, answers;    /* the daemon runs; it has reported `missing` */
	bool adoptable;          /* a new daemon could adopt the device */
	char missing[128];       /* the safety steps that were not taken: "locked, oom_exempt" */
};

#define SUBJECT_MAX 300 /* long enough for a donor's address */

/* The user's request, and all facts about the host. An int fact is the result of an attempt: 0 or -errno. An int64_t
   fact is a number, or the -errno of reading it. */
struct host {
	/* The user's request. */
	const struct config_list *donors;
	const uint8_t *key; /* AUTH_KEY_SIZE bytes, or NULL */
	uint64_t donate;    /* bytes to lend, or 0 if this host is not a donor */
	uint64_t swap;      /* bytes of the requested swap device, or 0 for none */
	bool encrypt;       /* the requested swap device encrypts its pages */
	bool client;        /* this host should be able to run programs */
	bool rdma_wanted;   /* at least one donor is named as rdma:// */

	uint64_t capabilities; /* this process's capabilities, a bit for each CAP_... */
	bool filtered;         /* a seccomp filter limits this process's system calls, as in most containers */

	struct fabric_devices rdma;
	int rdma_error; /* the error of listing the devices */

	struct {
		int open;             /* opening a userfaultfd with all features that the pager requires */
		int device;           /* opening /dev/userfaultfd */
		int64_t unprivileged; /* vm.unprivileged_userfaultfd */
		bool moves, poisons, sees_forks;
		int place, take; /* placing a page, and evicting it, which is tried only if `moves` */
	} uffd;

	struct {
		uint64_t lockable;         /* RLIMIT_MEMLOCK in bytes, or UINT64_MAX if unlimited */
		uint64_t total, available; /* memory of this machine, in bytes */
		/* Among this process's control group and the groups above it: the lowest limit, and the least memory
		   left below a limit. Then the lowest use at which the kernel slows a group down. In bytes; UINT64_MAX
		   if there is no limit. */
		uint64_t group_limit, group_left, group_easy;
		char huge[128];                         /* "always [madvise] never", or "" if the kernel has none */
		uint64_t hugetlb_bytes;                 /* bytes of one hugetlb page, or 0 if the kernel has none */
		uint64_t hugetlb_total, hugetlb_unused; /* pages */
		int64_t overcommit, maps;               /* vm.overcommit_memory, vm.max_map_count */
	} memory;

	struct {
		char release[65];
		int ring;              /* setting up a ring as ublk does */
		int64_t ring_disabled; /* kernel.io_uring_disabled */
		int pressure;          /* reading /proc/pressure/memory */
	} kernel;

	struct {
		unsigned count; /* processors that this process may run on */
		bool guest;     /* this is a virtual machine */
		char governor[32], driver[32];
		char clock[64];    /* the kernel's clock source, or empty */
		uint64_t clock_ns; /* duration of one reading of the clock */
		uint64_t seal_ns;  /* time to encrypt a page, or 0 if pages cannot be encrypted */
	} cpu;

	struct {
		int ublk;           /* opening /dev/ublk-control */
		bool ublk_recovers; /* devices outlive their daemon; unanswered requests are repeated */
		int fuse, loop;     /* opening /dev/fuse and /dev/loop-control */
		bool ublk_at_hand;  /* the module is installed, but not loaded */
		bool fuse_at_hand, loop_at_hand;
		char left[LEFT_MAX][RUNTIME_NAME_MAX + 1]; /* names of farpage's devices on this host */
		unsigned left_count;
	} devices;

	struct {
		int flusher;          /* PR_SET_IO_FLUSHER, which needs CAP_SYS_RESOURCE */
		bool own_group;       /* farpage swap on can make a group for the daemon alone */
		bool mkswap, kernel;  /* the program mkswap exists; the kernel can swap */
		int64_t page_cluster; /* vm.page-cluster */
		int reserves_error;
		struct watermarks reserves;
		const char *raised_for; /* a device that has raised the reserves, or NULL */
		struct watermarks_record raised;
	} daemon; /* the daemon of a swap device */

	struct probe probes[CONFIG_LIST_MAX];
	unsigned probe_count;

	/* The subject of the current check. */
	char subject[SUBJECT_MAX]; /* "rxe0/1", "tcp://10.0.0.7"; empty for this host */
	const struct fabric_device *device;
	const struct fabric_port *port;
	const struct probe *donor;
	struct left left;
	enum way way;
	bool way_is_local; /* the path leads to a donor on this host */
};

/* Returns true if this process has the capability in effect. @capability: CAP_... of linux/capability.h. */
static inline bool host_may(const struct host *host, unsigned capability)
{
	return host->capabilities >> capability & 1;
}

/* --- Checks ------------------------------------------------------------------------------------------------------ */

typedef void check_read(struct host *host);
/* Makes subject number @index the current subject. Returns false if there is none. */
typedef bool check_each(struct host *host, unsigned index);
typedef struct verdict check_judge(const struct host *host);

enum check_purpose {
	FOR_CLIENTS = 1, /* not needed by a host that only lends memory */
	FOR_RDMA = 2,    /* requested if a donor is named as rdma:// */
	FOR_SWAP = 4,    /* requested if a swap device was requested */
};

struct check {
	const char *id;    /* "rdma.port"; stable, because programs use it */
	const char *group; /* "RDMA" */
	const char *title; /* "port"; begins the finding's line */
	check_read *read;  /* reads the facts that this check judges, and perhaps others */
	check_each *each;  /* NULL if the check is about the host */
	check_judge *judge;
	unsigned purpose; /* a mask of enum check_purpose */
	const char *why;  /* why the check matters */
	const char *mend; /* what to do after a warning or failure, or NULL */
};

extern const struct check checks[];
extern const unsigned checks_count;

/* Returns the verdict about the current subject. Puts check->mend into a warning or failure that has no advice of its
   own. */
struct verdict checks_judge(const struct check *check, const struct host *host);

check_read doctor_rdma_read, doctor_faults_read, doctor_memory_read, doctor_kernel_read, doctor_cpu_read;
check_read doctor_devices_read, doctor_donors_read, doctor_swap_read;
check_each doctor_rdma_each_device, doctor_rdma_each_port, doctor_donors_each, doctor_safety_each_way;
check_each doctor_devices_each_left;
check_judge doctor_rdma_devices, doctor_rdma_cm, doctor_rdma_port, doctor_rdma_mtu, doctor_rdma_limits;
check_judge doctor_faults_right, doctor_faults_paging, doctor_faults_forks;
check_judge doctor_memory_lock, doctor_memory_donate, doctor_memory_room, doctor_memory_huge, doctor_memory_hugetlb;
check_judge doctor_memory_overcommit, doctor_memory_maps;
check_judge doctor_kernel_version, doctor_kernel_ring, doctor_kernel_pressure;
check_judge doctor_devices_ublk, doctor_devices_fuse, doctor_devices_left;
check_judge doctor_cpu_count, doctor_cpu_clock, doctor_cpu_seal;
check_judge doctor_donors_reach, doctor_donors_free, doctor_donors_distance;
check_judge doctor_swap_rights, doctor_swap_group, doctor_swap_tools, doctor_swap_readahead, doctor_swap_reserves;
check_judge doctor_swap_space, doctor_safety;

/* Returns the front end that `auto` chooses on this host, or NULL if there is none. */
const struct frontend_ops *doctor_devices_frontend(const struct host *host);
/* Returns the size in KiB of all requests that a device with default settings can have in flight. Returns 0 if there is
   no front end. */
uint64_t doctor_devices_flight_kib(const struct host *host);
/* Returns true if this process may lock all of its memory, because it has no limit or the right to exceed it. */
bool doctor_swap_locks(const struct host *host);
/* Returns the reserves that swapping to a device of this host needs. */
struct watermarks doctor_swap_needed(const struct host *host);
/* Returns how many bytes of local memory the daemon needs when its swap device of host->swap bytes is full. */
uint64_t doctor_swap_daemon_bytes(const struct host *host);

/* --- The report -------------------------------------------------------------------------------------------------- */

struct finding {
	const struct check *check;
	char subject[SUBJECT_MAX];
	char label[SUBJECT_MAX + 32]; /* the check's title and subject */
	struct verdict verdict;
};

struct report {
	struct finding *findings;
	unsigned count, room;
	bool truncated; /* findings are missing for lack of memory */
	bool verbose;
};

void doctor_print_add(struct report *report, const struct check *check, const char *subject,
		      const struct verdict *verdict);
/* Prints the findings on @file as text, wrapped to @width columns, or not wrapped if @width is 0. */
void doctor_print_text(const struct report *report, FILE *file, unsigned width, bool colour);
void doctor_print_json(const struct report *report, FILE *file);

#endif
