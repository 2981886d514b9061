/* run_coverage: see run_coverage.h. */
#include "cli/run/run_coverage.h"

#include "common/log.h"
#include "common/size.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_SIZE 64
#define NAME_SIZE 32
#define DEPTH_MAX 64 /* depth of the tree of processes */
#define TOLD_MAX (sizeof((struct run_coverage *)0)->told / sizeof(pid_t))

/* --- What the kernel says ---------------------------------------------------------------------------------------- */

/* Returns the text of file @name of process @pid in /proc, which the caller frees. Returns NULL if the process has
   ended or may not be read. */
static char *proc_read(pid_t pid, const char *name)
{
	char path[2 * PATH_SIZE], *text = NULL;
	size_t size = 0;

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	FILE *file = fopen(path, "re");
	if (!file)
		return NULL;
	ssize_t length = getdelim(&text, &size, '\0', file);
	fclose(file);
	if (length > 0)
		return text;
	free(text);
	return NULL;
}

/* Returns the number of kB after @name, converted to bytes, or 0 if @name is not in @text. */
static uint64_t field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

static void name_of(const char *status, char ret_name[NAME_SIZE])
{
	const char *at = strstr(status, "Name:\t");

	snprintf(ret_name, NAME_SIZE, "%.*s", at ? (int)strcspn(at + 6, "\n") : 1, at ? at + 6 : "?");
}

/* Returns the bytes that the pager of process @pid counts as resident, or 0 if there is no pager. *@ret_own is the
   part of them that the pager uses for its buffers and bookkeeping. */
static uint64_t covered(const struct report *report, pid_t pid, uint64_t *ret_own)
{
	*ret_own = 0;
	for (unsigned i = 0; i < REPORT_SLOTS; i++) {
		const struct pager_counters *counters = &report->slots[i].counters;
		struct farpage_stats stats;

		if (__atomic_load_n(&report->slots[i].pid, __ATOMIC_ACQUIRE) != pid)
			continue;
		counters_read(counters, &stats);
		*ret_own = __atomic_load_n(&counters->overhead_bytes, __ATOMIC_RELAXED);
		return stats.resident_bytes;
	}
	return 0;
}

static uint64_t less(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

/* --- Mapping by mapping ------------------------------------------------------------------------------------------ */

enum kind { KIND_MAPPED, KIND_CODE, KIND_HEAP, KIND_SHARED, KINDS };

static const char *const kinds[KINDS] = {
    [KIND_MAPPED] = "most of it was mapped by its own system calls, at addresses that it chose, or in small pieces",
    [KIND_CODE] = "most of it is executable",
    [KIND_HEAP] = "most of it is a heap that grows by brk",
    [KIND_SHARED] = "most of it is shared memory",
};

/* A header begins with the range of addresses and the rights: "7f00c0000000-7f00c0021000 rwxp". */
static bool is_executable(const char *header)
{
	size_t range = strcspn(header, " ");

	return strlen(header) > range + 3 && header[range + 3] == 'x';
}

/* Returns the kind of a mapping with anonymous pages. */
static enum kind kind_of(const char *header)
{
	if (strstr(header, "[heap]"))
		return KIND_HEAP;
	return is_executable(header) ? KIND_CODE : KIND_MAPPED;
}

/* For a mapping without anonymous pages: returns true if it is shared memory, and false if it maps a file. */
static bool is_shared_memory(const char *header)
{
	return strstr(header, " /dev/zero (deleted)") || strstr(header, " /memfd:") || strstr(header, " /SYSV") ||
	       strstr(header, " /dev/shm/");
}

/* Adds one mapping to @sums, unless the mapping is far memory. @header and @fields are its lines in smaps. */
static void mapping_add(const char *header, const char *fields, uint64_t sums[KINDS])
{
	uint64_t anonymous = field(fields, "\nAnonymous:"), part = field(fields, "\nPss:");
	const char *flags = strstr(fields, "\nVmFlags:");

	if (flags && strstr(flags, " um"))
		return;
	if (anonymous)
		sums[kind_of(header)] += anonymous < part ? anonymous : part;
	else if (is_shared_memory(header))
		sums[KIND_SHARED] += part;
}

/* Returns the next header of a mapping after @at, or NULL. A header begins with an address in lower case. The lines
   below it begin with the name of a field, in upper case. */
static const char *next_header(const char *at)
{
	while ((at = strchr(at, '\n')) && (at[1] < '0' || at[1] > '9') && (at[1] < 'a' || at[1] > 'f'))
		at++;
	return at ? at + 1 : NULL;
}

/* Returns the bytes of the mappings in @smaps that the pager cannot send to donors. *@ret_kind names their largest
   kind. */
static uint64_t mappings_sum(const char *smaps, const char **ret_kind)
{
	uint64_t sums[KINDS] = {0}, sum = 0;
	enum kind most = KIND_MAPPED;

	for (const char *at = smaps, *next; at && *at; at = next) {
		next = next_header(at);
		size_t length = next ? (size_t)(next - at) : strlen(at), line = strcspn(at, "\n");
		char *fields = strndup(at + line, length - line), *header = strndup(at, line);
		if (fields && header)
			mapping_add(header, fields, sums);
		free(fields);
		free(header);
	}
	for (unsigned i = 0; i < KINDS; i++) {
		sum += sums[i];
		most = sums[i] > sums[most] ? (enum kind)i : most;
	}
	*ret_kind = strstr(smaps, "libfarpage-preload") ? kinds[most] : "it runs without farpage's library";
	return sum;
}

/* --- Processes --------------------------------------------------------------------------------------------------- */

static bool was_told(struct run_coverage *coverage, pid_t pid)
{
	for (unsigned i = 0; i < coverage->told_count; i++)
		if (coverage->told[i] == pid)
			return true;
	return coverage->told_count == TOLD_MAX;
}

static void tell(struct run_coverage *coverage, pid_t pid, const char *status, uint64_t outside, const char *kind)
{
	char name[NAME_SIZE], size[SIZE_TEXT_MAX], local[SIZE_TEXT_MAX];

	if (was_told(coverage, pid))
		return;
	coverage->told[coverage->told_count++] = pid;
	name_of(status, name);
	log_warning("process %d (%s) has %s outside farpage's reach, and --local is %s: %s; --engine swap takes it",
		    (int)pid, name, size_format(outside, size), size_format(coverage->local_bytes, local), kind);
}

/* Returns false if the process is ending. The kernel may then have told only some of its mappings. */
static bool has_memory(pid_t pid)
{
	char *status = proc_read(pid, "status");
	bool has = status && strstr(status, "\nVmSize:");

	free(status);
	return has;
}

static void process_look(struct run_coverage *coverage, pid_t pid)
{
	char *status = proc_read(pid, "status"), *smaps;

	if (!status)
		return;
	uint64_t all = field(status, "\nRssAnon:") + field(status, "\nRssShmem:");
	uint64_t own, inside = covered(coverage->report, pid, &own), outside = less(all, inside);
	const char *kind;
	if (outside > coverage->local_bytes && (smaps = proc_read(pid, "smaps"))) {
		outside = less(mappings_sum(smaps, &kind), own);
		free(smaps);
		if (outside > coverage->local_bytes && has_memory(pid)) {
			tell(coverage, pid, status, outside, kind);
			coverage->ended |= coverage->strict;
		}
	}
	free(status);
	/* A process without a pager is not counted yet: it may be a forked process that shares much of this memory. */
	if ((inside || outside > coverage->local_bytes) && outside > coverage->outside_bytes)
		coverage->outside_bytes = outside;
}

typedef void (*process_do)(struct run_coverage *coverage, pid_t pid);

/* Calls @before for @pid, then walks all its descendants, then calls @after for @pid. Either may be NULL. */
static void tree_walk(struct run_coverage *coverage, pid_t pid, process_do before, process_do after, unsigned depth)
{
	char path[PATH_SIZE], name[PATH_SIZE];

	if (before)
		before(coverage, pid);
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *threads = depth < DEPTH_MAX ? opendir(path) : NULL;
	for (struct dirent *thread; threads && (thread = readdir(threads));) {
		snprintf(name, sizeof name, "task/%.20s/children", thread->d_name);
		char *children = thread->d_name[0] == '.' ? NULL : proc_read(pid, name), *end;
		for (char *at = children; at && *at; at = end) {
			pid_t child = (pid_t)strtol(at, &end, 10);

			if (end == at)
				break;
			tree_walk(coverage, child, before, after, depth + 1);
		}
		free(children);
	}
	if (threads)
		closedir(threads);
	if (after)
		after(coverage, pid);
}

static void process_stop(struct run_coverage *coverage, pid_t pid)
{
	(void)coverage;
	kill(pid, SIGSTOP);
}

static void process_end(struct run_coverage *coverage, pid_t pid)
{
	(void)coverage;
	kill(pid, SIGKILL);
}

void run_coverage_look(struct run_coverage *coverage, pid_t command)
{
	tree_walk(coverage, command, process_look, NULL, 0);
	if (!coverage->ended)
		return;
	log_error("the command is ended, as --strict asks for");
	/* Stops the processes first, because stopped processes do not fork. Then kills children before their parents,
	   because the children of a dead process are not found. */
	tree_walk(coverage, command, process_stop, NULL, 0);
	tree_walk(coverage, command, NULL, process_end, 0);
}
