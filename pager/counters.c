#include "pager/counters.h"

#include "client/store.h"

static uint64_t get(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void counters_read(const struct pager_counters *counters, struct farpage_stats *ret_stats)
{
	*ret_stats = (struct farpage_stats){
	    .resident_bytes = get(&counters->resident_pages) * STORE_PAGE + get(&counters->overhead_bytes),
	    .resident_peak_bytes = get(&counters->local_peak_bytes),
	    .far_bytes = get(&counters->far_pages) * STORE_PAGE,
	    .far_peak_bytes = get(&counters->far_peak) * STORE_PAGE,
	    .faults = get(&counters->faults),
	    .faults_far = get(&counters->faults_far),
	    .faults_buffered = get(&counters->faults_buffered),
	    .fetched_pages = get(&counters->fetched),
	    .prefetched_pages = get(&counters->prefetched),
	    .evicted_pages = get(&counters->evicted),
	    .evicted_clean_pages = get(&counters->evicted_clean),
	    .evicted_zero_pages = get(&counters->evicted_zero),
	    .fault_p50_ns = histogram_quantile(&counters->fault_ns, 500),
	    .fault_p99_ns = histogram_quantile(&counters->fault_ns, 990),
	    .stalls = get(&counters->stalls),
	    .lost_pages = get(&counters->lost),
	    .held_bytes = get(&counters->held) * STORE_PAGE,
	    .dropped_pages = get(&counters->dropped),
	    .children_stopped = get(&counters->children_stopped),
	    .backup_behind = get(&counters->backup_behind),
	    .backup_reads = get(&counters->backup_reads),
	    .backup_writes = get(&counters->backup_writes),
	};
}

uint64_t counters_children(const struct pager_counters *counters)
{
	return get(&counters->children_pages) * STORE_PAGE;
}
