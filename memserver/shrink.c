/* shrink: see shrink.h. */
#include "memserver/shrink.h"

#include "common/log.h"
#include "common/machine.h"
#include "common/size.h"

#include <string.h>

static void tell(struct shrink *shrink, enum pressure_state before, uint64_t available, uint32_t more)
{
	const struct pressure *pressure = &shrink->pressure;
	char has[SIZE_TEXT_MAX], keeps[SIZE_TEXT_MAX], lends[SIZE_TEXT_MAX];

	size_format(available, has);
	size_format(pressure->config.reserve, keeps);
	size_format(pressure->target * pressure->config.slab_bytes, lends);
	if (pressure->state == PRESSURE_PRESSED && more)
		log_warning("memory is short, %s available (--reserve %s): %u slab%s to be given back within %.3g s",
			    has, keeps, more, more == 1 ? " is" : "s are",
			    (double)shrink->donor->config.limits.revoke_ns / 1e9);
	else if (pressure->state == PRESSURE_PRESSED && before != PRESSURE_PRESSED)
		log_warning("memory is short, %s available (--reserve %s): no more than %s may be lent", has, keeps,
			    lends);
	else if (pressure->state == PRESSURE_CALM && before != PRESSURE_CALM)
		log_info("memory is not short any more: up to %s may be lent", lends);
}

static void look(struct shrink *shrink, uint64_t now)
{
	struct lease_book *book = shrink->donor->book;
	const enum pressure_state before = shrink->pressure.state;
	struct pressure_reading reading = {
	    .in_use = lease_in_use(book), .going = lease_going(book), .stalls = shrink->stalled};
	struct machine_memory memory;
	int status = machine_memory_read(&memory);
	uint32_t target, going;

	if (status < 0) {
		if (!shrink->blind)
			log_error("cannot tell how much memory there is: %s", strerror(-status));
		shrink->blind = true;
		shrink->pressure.read_at = now + PRESSURE_READ_NS;
		return;
	}
	shrink->blind = false;
	shrink->stalled = false;
	reading.available = memory.available;
	target = pressure_read(&shrink->pressure, now, &reading);
	donor_target(shrink->donor, now, target, shrink->pressure.state != PRESSURE_CALM);
	going = lease_going(book);
	tell(shrink, before, memory.available, going > reading.going ? going - reading.going : 0);
}

void shrink_open(struct shrink *shrink, const struct pressure_config *config, struct donor *donor)
{
	int status;

	*shrink = (struct shrink){.donor = donor};
	pressure_init(&shrink->pressure, config);
	status = stall_open(&shrink->stall);
	if (status < 0)
		log_info("no pressure stall information here (%s): only the available memory counts",
			 strerror(-status));
	look(shrink, donor_now(donor));
}

void shrink_reload(struct shrink *shrink, uint32_t slabs, uint64_t reserve)
{
	shrink->pressure.config.slabs = slabs;
	shrink->pressure.config.reserve = reserve;
	slab_set_reserve(shrink->donor->worker, reserve);
	look(shrink, donor_now(shrink->donor));
}

void shrink_close(struct shrink *shrink)
{
	stall_close(shrink->stall);
	shrink->stall = NULL;
}

int shrink_fd(const struct shrink *shrink)
{
	return shrink->stall ? stall_fd(shrink->stall) : -1;
}

void shrink_stalled(struct shrink *shrink)
{
	if (!stall_take(shrink->stall))
		return;
	shrink->stalls++;
	shrink->stalled = true;
	shrink->pressure.read_at = 0;
}

void shrink_look(struct shrink *shrink, uint64_t now)
{
	if (now >= shrink->pressure.read_at)
		look(shrink, now);
}

uint64_t shrink_due(const struct shrink *shrink)
{
	return lease_in_use(shrink->donor->book) || shrink->stalled ? shrink->pressure.read_at : UINT64_MAX;
}
