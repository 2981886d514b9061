/* run_report: the sums of processes that live and of those that have ended, and the slots that these free. */
#include "cli/run/run_report.h"
#include "client/store.h"
#include "tests/lib/tap.h"

#include <sys/wait.h>
#include <unistd.h>

static struct run_report report;
static struct run_summary summary;

/* Returns the PID of a process that has ended. */
static pid_t ended_process(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

/* Claims slot @index for process @pid, with @pages local and 10 times as many far ones. */
static struct pager_counters *claim(unsigned index, pid_t pid, uint64_t pages)
{
	struct pager_counters *counters = &report.shared->slots[index].counters;

	report.shared->slots[index].pid = pid;
	counters->resident_pages = pages;
	counters->local_peak_bytes = 2 * pages * STORE_PAGE;
	counters->far_pages = 10 * pages;
	counters->far_peak = 20 * pages;
	counters->fetched = 3;
	histogram_record(&counters->fault_ns, 1000);
	return counters;
}

static unsigned slots_used(void)
{
	unsigned used = 0;

	for (unsigned i = 0; i < REPORT_SLOTS; i++)
		used += report.shared->slots[i].pid != 0;
	return used;
}

static void living_processes_are_summed(void)
{
	claim(0, getpid(), 5);
	claim(7, getppid(), 6);
	run_report_sum(&report, &summary);
	ok(summary.processes == 2 && summary.stats.fetched_pages == 6 && summary.advice.waiting_ns > 0,
	   "the counts of two processes are added");
	ok(summary.resident_now == 11 * STORE_PAGE && summary.far_now == 110 * STORE_PAGE,
	   "the memory of two processes is added");
	ok(summary.stats.resident_peak_bytes == 12 * STORE_PAGE, "the peak of local memory is that of the larger one");
	ok(summary.stats.far_peak_bytes == 120 * STORE_PAGE,
	   "the peak of far memory is that of the larger one, if that is more");
	report.shared->slots[0].counters.far_pages = 100;
	run_report_sum(&report, &summary);
	ok(summary.stats.far_peak_bytes == 160 * STORE_PAGE && summary.together_peak_bytes == 11 * STORE_PAGE,
	   "the peaks of both together are remembered");
	ok(summary.processes == 2 && slots_used() == 2, "processes that live keep their slots");
}

static void slots_of_ended_processes_are_free(void)
{
	const pid_t dead = ended_process();

	for (unsigned i = 0; i < REPORT_SLOTS; i++)
		claim(i, i % 2 ? REPORT_ENDED : dead, 1);
	run_report_sum(&report, &summary);
	ok(slots_used() == 0, "the slots of all ended processes are free");
	ok(summary.processes == REPORT_SLOTS && summary.stats.fetched_pages == 3 * REPORT_SLOTS,
	   "the counts of ended processes stay in the sum");
	ok(summary.stats.far_bytes == 10 * REPORT_SLOTS * STORE_PAGE && summary.far_now == 0,
	   "the sum has the last memory of processes that have just ended");
	ok(summary.stats.far_peak_bytes == summary.stats.far_bytes, "the peak is not less than what just was far");
	ok(report.shared->slots[3].counters.fetched == 0 && report.shared->slots[3].counters.fault_ns.count == 0,
	   "a free slot counts from 0");
	claim(0, dead, 2);
	run_report_sum(&report, &summary);
	ok(summary.processes == REPORT_SLOTS + 1 && summary.stats.fetched_pages == 3 * REPORT_SLOTS + 3 &&
	       summary.stats.resident_peak_bytes == 4 * STORE_PAGE,
	   "a process in a slot that was used before is added");
	ok(summary.stats.far_bytes == 20 * STORE_PAGE, "the sum has no memory of processes that ended earlier");
	ok(summary.advice.wanted_bytes == 44 * STORE_PAGE, "the largest need of a process is remembered");
}

static void stopped_children_are_counted_after_their_parent(void)
{
	struct pager_counters *counters = claim(1, ended_process(), 1);

	run_report_sum(&report, &summary);
	counters->children_stopped++;
	run_report_sum(&report, &summary);
	ok(summary.stats.children_stopped == 1, "a child that is stopped after its parent has ended is counted");
	claim(1, ended_process(), 1);
	run_report_sum(&report, &summary);
	ok(summary.stats.children_stopped == 1,
	   "a stopped child is counted once, although its parent's slot was used again");
}

static void in_new_report(void (*test)(void))
{
	memset(&summary, 0, sizeof summary);
	if (run_report_open("/told", &report))
		tap_bail("no report");
	test();
	run_report_close(&report);
}

int main(void)
{
	in_new_report(living_processes_are_summed);
	in_new_report(slots_of_ended_processes_are_free);
	in_new_report(stopped_children_are_counted_after_their_parent);
	return tap_done();
}
