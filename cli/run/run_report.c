/* run_report: see run_report.h. Other processes may still be counting while the counts are read. */
#include "cli/run/run_report.h"

#include "cli/json.h"
#include "cli/run/advice_file.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define AMISS_MAX 160
#define TOGETHER_MAX 64
#define THRASHED 0.5

int run_report_open(const char *told, struct run_report *ret_report)
{
	struct run_report report = {.fd = memfd_create("farpage-report", MFD_CLOEXEC)};

	if (report.fd < 0)
		return -errno;
	if (!ftruncate(report.fd, sizeof *report.shared))
		report.shared = mmap(NULL, sizeof *report.shared, PROT_READ | PROT_WRITE, MAP_SHARED, report.fd, 0);
	if (!report.shared || report.shared == MAP_FAILED) {
		int error = -errno;

		close(report.fd);
		return error;
	}
	report.shared->magic = REPORT_MAGIC;
	snprintf(report.shared->told, sizeof report.shared->told, "%s", told);
	snprintf(report.path, sizeof report.path, "/proc/%d/fd/%d", (int)getpid(), report.fd);
	*ret_report = report;
	return 0;
}

void run_report_close(struct run_report *report)
{
	if (!report->shared)
		return;
	munmap(report->shared, sizeof *report->shared);
	close(report->fd);
	report->shared = NULL;
}

static uint64_t larger(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

/* Adds the counts of one process, except children_stopped. */
static void stats_add(struct farpage_stats *sum, const struct farpage_stats *one)
{
	sum->resident_peak_bytes = larger(sum->resident_peak_bytes, one->resident_peak_bytes);
	sum->far_peak_bytes = larger(sum->far_peak_bytes, one->far_peak_bytes);
	sum->resident_bytes += one->resident_bytes;
	sum->far_bytes += one->far_bytes;
	sum->faults += one->faults;
	sum->faults_far += one->faults_far;
	sum->faults_buffered += one->faults_buffered;
	sum->fetched_pages += one->fetched_pages;
	sum->prefetched_pages += one->prefetched_pages;
	sum->evicted_pages += one->evicted_pages;
	sum->evicted_clean_pages += one->evicted_clean_pages;
	sum->evicted_zero_pages += one->evicted_zero_pages;
	sum->stalls += one->stalls;
	sum->lost_pages += one->lost_pages;
	sum->held_bytes += one->held_bytes;
	sum->dropped_pages += one->dropped_pages;
	sum->backup_behind += one->backup_behind;
	sum->backup_reads += one->backup_reads;
	sum->backup_writes += one->backup_writes;
}

/* Adds the counts of one process, and returns them. */
static struct farpage_stats sums_add(struct run_sums *sums, const struct pager_counters *counters)
{
	struct farpage_stats stats;

	counters_read(counters, &stats);
	stats_add(&sums->stats, &stats);
	histogram_add(&sums->faults, &counters->fault_ns);
	histogram_add(&sums->depths, &counters->depths);
	sums->pager_ns += __atomic_load_n(&counters->handler_user_ns, __ATOMIC_RELAXED) +
			  __atomic_load_n(&counters->evictor_user_ns, __ATOMIC_RELAXED);
	sums->wanted_bytes = larger(sums->wanted_bytes, stats.resident_peak_bytes + stats.far_peak_bytes);
	sums->processes++;
	return stats;
}

static void clear(struct pager_counters *counters)
{
	const size_t kept = offsetof(struct pager_counters, children_stopped), next = kept + sizeof(uint64_t);

	memset(counters, 0, kept);
	memset((char *)counters + next, 0, sizeof *counters - next);
}

/* process_has_ended() is no choice here: it is also true if /proc cannot be read, and a slot in use must stay. */
static bool has_ended(pid_t pid)
{
	return pid == REPORT_ENDED || (kill(pid, 0) && errno == ESRCH);
}

/* Adds the counts of processes that have ended to report->ended, and frees their slots. */
static void free_slots(struct run_report *report)
{
	for (unsigned i = 0; i < REPORT_SLOTS; i++) {
		int32_t *slot_pid = &report->shared->slots[i].pid, pid = __atomic_load_n(slot_pid, __ATOMIC_ACQUIRE);
		struct pager_counters *counters = &report->shared->slots[i].counters;

		if (!pid || !has_ended(pid))
			continue;
		sums_add(&report->ended, counters);
		clear(counters);
		__atomic_store_n(slot_pid, 0, __ATOMIC_RELEASE);
	}
}

void run_report_sum(struct run_report *report, struct run_summary *summary)
{
	static struct run_sums sums; /* too large for the stack */
	uint64_t stopped = 0;

	free_slots(report);
	sums = report->ended;
	/* The last memory of a process counts in this sum, but not in later ones. */
	report->ended.stats.resident_bytes = report->ended.stats.far_bytes = 0;
	report->ended.stats.held_bytes = report->ended.stats.backup_behind = 0;
	summary->resident_now = summary->far_now = 0;
	for (unsigned i = 0; i < REPORT_SLOTS; i++) {
		const struct pager_counters *counters = &report->shared->slots[i].counters;

		stopped += __atomic_load_n(&counters->children_stopped, __ATOMIC_RELAXED);
		if (__atomic_load_n(&report->shared->slots[i].pid, __ATOMIC_ACQUIRE) <= 0)
			continue;
		const struct farpage_stats stats = sums_add(&sums, counters);
		summary->resident_now += stats.resident_bytes + counters_children(counters);
		summary->far_now += stats.far_bytes;
	}
	report->resident_peak = larger(report->resident_peak, summary->resident_now);
	/* Processes that ended since the last sum count as if they had ended together. */
	report->far_peak = larger(report->far_peak, sums.stats.far_bytes);
	summary->stats = sums.stats;
	summary->stats.children_stopped = stopped;
	summary->stats.far_peak_bytes = larger(sums.stats.far_peak_bytes, report->far_peak);
	summary->stats.fault_p50_ns = histogram_quantile(&sums.faults, 500);
	summary->stats.fault_p99_ns = histogram_quantile(&sums.faults, 990);
	summary->processes = sums.processes;
	summary->together_peak_bytes = report->resident_peak;
	summary->advice.pager_ns = sums.pager_ns;
	summary->advice.wanted_bytes = sums.wanted_bytes;
	summary->advice.waiting_ns = histogram_sum(&sums.faults);
	advice_predict(&summary->advice, &sums.depths);
}

const char *run_report_thrashed(double waited, uint64_t wanted, char text[RUN_THRASHED_MAX])
{
	char local[SIZE_TEXT_MAX];

	*text = '\0';
	if (waited > THRASHED)
		snprintf(text, RUN_THRASHED_MAX,
			 ", %.0f%% of its time waiting for far memory: --local %s would end that", waited * 100,
			 size_format(wanted, local));
	return text;
}

/* Returns the share of its threads' time in which the command waited for far memory, from 0 to 1. */
static double waited(const struct run_summary *summary)
{
	if (summary->advice.waiting_ns < ADVICE_WAITING_MIN_NS)
		return 0;
	return (double)summary->advice.waiting_ns / (double)(summary->advice.waiting_ns + summary->advice.computing_ns);
}

/* Writes the problems of the run into @text, each after a comma. Returns @text. */
static const char *amiss(const struct run_summary *summary, char text[AMISS_MAX])
{
	char outside[SIZE_TEXT_MAX];
	unsigned long long stopped = (unsigned long long)summary->stats.children_stopped;
	int length = 0;

	*text = '\0';
	if (summary->outside_bytes > summary->advice.local_bytes)
		length = snprintf(text, AMISS_MAX, ", %s outside farpage's reach",
				  size_format(summary->outside_bytes, outside));
	else if (summary->processes && !summary->stats.far_peak_bytes &&
		 summary->peak_bytes > summary->advice.local_bytes + summary->stats.resident_peak_bytes)
		/* run_coverage did not see this process, because it ran for less than half a second. */
		length = snprintf(text, AMISS_MAX,
				  ", a process had %s resident (pages of files included), more than --local",
				  size_format(summary->peak_bytes, outside));
	if (stopped)
		snprintf(text + length, (size_t)(AMISS_MAX - length), ", %llu forked %s stopped for want of memory",
			 stopped, stopped == 1 ? "child" : "children");
	return text;
}

/* Writes what all processes had together into @text, if that is more than the largest of them had. Returns @text. */
static const char *together_text(const struct run_summary *summary, char text[TOGETHER_MAX])
{
	char size[SIZE_TEXT_MAX];

	*text = '\0';
	if (summary->together_peak_bytes > summary->stats.resident_peak_bytes)
		snprintf(text, TOGETHER_MAX, " (all processes together %s)",
			 size_format(summary->together_peak_bytes, size));
	return text;
}

void run_report_print(const struct run_summary *summary)
{
	const struct farpage_stats *stats = &summary->stats;
	char text[AMISS_MAX], thrashed[RUN_THRASHED_MAX], advice[ADVICE_TEXT_MAX];
	char peak[SIZE_TEXT_MAX], local[SIZE_TEXT_MAX], far[SIZE_TEXT_MAX], far_peak[SIZE_TEXT_MAX];
	char together[TOGETHER_MAX];
	double wall = (double)summary->advice.wall_ns / 1e9;

	if (!summary->processes && summary->peak_bytes > summary->advice.local_bytes &&
	    summary->outside_bytes <= summary->advice.local_bytes) {
		/* run_coverage checks twice a second, and misses a process that runs for less time. */
		fprintf(stderr,
			"farpage: no process has reported far memory, and one had %s resident (pages of files "
			"included), more than --local %s; --engine swap reaches memory that the pager does not, wall "
			"%.1f s\n",
			size_format(summary->peak_bytes, peak), size_format(summary->advice.local_bytes, local), wall);
		return;
	}
	if (!summary->processes) {
		fprintf(stderr, "farpage: nothing needed far memory (peak resident %s)%s, wall %.1f s\n",
			size_format(summary->peak_bytes, peak), amiss(summary, text), wall);
		return;
	}
	advice_text(&summary->advice, advice);
	run_report_thrashed(*advice ? 0 : waited(summary), summary->advice.wanted_bytes, thrashed);
	size_format(stats->resident_peak_bytes, peak);
	size_format(summary->advice.local_bytes, local);
	size_format(stats->far_bytes, far);
	size_format(stats->far_peak_bytes, far_peak);
	fprintf(
	    stderr,
	    "farpage: peak resident %s of %s%s, far %s (peak %s), faults %llu (far %llu, p50 %.1f us, p99 %.1f us), "
	    "fetched %llu pages, evicted %llu%s%s, wall %.1f s\n",
	    peak, local, together_text(summary, together), far, far_peak, (unsigned long long)stats->faults,
	    (unsigned long long)stats->faults_far, (double)stats->fault_p50_ns / 1e3, (double)stats->fault_p99_ns / 1e3,
	    (unsigned long long)stats->fetched_pages, (unsigned long long)stats->evicted_pages, amiss(summary, text),
	    thrashed, wall);
	if (*advice)
		fprintf(stderr, "farpage: %s\n", advice);
}

int run_report_check(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0) {
		log_error("cannot write --stats %s: %s", path, strerror(errno));
		return -errno;
	}
	close(fd);
	return 0;
}

int run_report_write(const char *engine, const struct run_figure *figures, unsigned count, const struct advice *advice,
		     const char *path)
{
	int error = 0;
	struct json_object *object = json_object_new_object();

	if (object)
		json_add_text(object, "engine", engine);
	for (unsigned i = 0; object && i < count; i++)
		json_add_number(object, figures[i].name, figures[i].value);
	if (object && advice)
		json_object_object_add(object, ADVICE_FILE_FETCHES, advice_file_fetches(advice));
	errno = ENOMEM;
	if (!object || json_object_to_file_ext(path, object, JSON_C_TO_STRING_PRETTY)) {
		error = -errno;
		log_error("cannot write the statistics to %s: %s", path, strerror(-error));
	}
	json_object_put(object);
	return error;
}

int run_report_save(const struct run_summary *summary, const char *path)
{
	const struct farpage_stats *stats = &summary->stats;
	const struct run_figure figures[] = {
	    {"resident_bytes", stats->resident_bytes},
	    {"resident_peak_bytes", stats->resident_peak_bytes},
	    {"together_peak_bytes", summary->together_peak_bytes},
	    {"far_bytes", stats->far_bytes},
	    {"far_peak_bytes", stats->far_peak_bytes},
	    {"faults", stats->faults},
	    {"faults_far", stats->faults_far},
	    {"faults_buffered", stats->faults_buffered},
	    {"fetched_pages", stats->fetched_pages},
	    {"prefetched_pages", stats->prefetched_pages},
	    {"evicted_pages", stats->evicted_pages},
	    {"evicted_clean_pages", stats->evicted_clean_pages},
	    {"evicted_zero_pages", stats->evicted_zero_pages},
	    {"fault_p50_ns", stats->fault_p50_ns},
	    {"fault_p99_ns", stats->fault_p99_ns},
	    {"stalls", stats->stalls},
	    {"lost_pages", stats->lost_pages},
	    {"held_bytes", stats->held_bytes},
	    {"dropped_pages", stats->dropped_pages},
	    {"children_stopped", stats->children_stopped},
	    {"outside_bytes", summary->outside_bytes},
	    {"backup_behind", stats->backup_behind},
	    {"backup_reads", stats->backup_reads},
	    {"backup_writes", stats->backup_writes},
	    {"waiting_ns", summary->advice.waiting_ns},
	    {"computing_ns", summary->advice.computing_ns},
	    {"pager_ns", summary->advice.pager_ns},
	    {"wall_ns", summary->advice.wall_ns},
	    {"local_bytes", summary->advice.local_bytes},
	    {"wanted_bytes", summary->advice.wanted_bytes},
	    {"processes", summary->processes},
	};

	return run_report_write("pager", figures, sizeof figures / sizeof figures[0], &summary->advice, path);
}
