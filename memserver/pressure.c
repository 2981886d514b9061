/* pressure: see pressure.h. */
#include "memserver/pressure.h"

#include <assert.h>

/* One bit per legal next state. */
static const uint8_t moves[PRESSURE_STATES] = {
    [PRESSURE_CALM] = 1 << PRESSURE_PRESSED,
    [PRESSURE_PRESSED] = 1 << PRESSURE_GROWING,
    [PRESSURE_GROWING] = 1 << PRESSURE_PRESSED | 1 << PRESSURE_CALM,
};

static void state_move(struct pressure *pressure, enum pressure_state to)
{
	assert(moves[pressure->state] & 1 << to);
	pressure->state = to;
}

void pressure_init(struct pressure *pressure, const struct pressure_config *config)
{
	assert(config->slabs && config->slab_bytes);
	*pressure = (struct pressure){.config = *config, .target = config->slabs};
}

static uint32_t step(const struct pressure_config *config)
{
	return config->slabs / PRESSURE_STEPS ? config->slabs / PRESSURE_STEPS : 1;
}

/* Returns the margin above the reserve that a grant must leave. The margin avoids a recall after a small drop of
   available memory. */
static uint64_t margin(const struct pressure_config *config)
{
	return config->reserve / 8 > config->slab_bytes ? config->reserve / 8 : config->slab_bytes;
}

static uint32_t less(uint32_t slabs, uint64_t by)
{
	return by < slabs ? slabs - (uint32_t)by : 0;
}

/* Returns how many slabs may be in use, by available memory alone. The result is below the number in use only if that
   number exceeds config->slabs. */
static uint32_t most(const struct pressure_config *config, const struct pressure_reading *reading)
{
	const uint64_t keep = config->reserve + margin(config);
	const uint64_t more = reading->available > keep ? (reading->available - keep) / config->slab_bytes : 0;

	return more < config->slabs && reading->in_use + more < config->slabs ? reading->in_use + (uint32_t)more
									      : config->slabs;
}

/* Returns true if there is pressure, and then writes how many slabs may be in use. */
static bool is_pressed(const struct pressure_config *config, const struct pressure_reading *reading,
		       uint32_t *ret_slabs)
{
	uint64_t lacking;

	if (reading->available < config->reserve) {
		lacking = config->reserve - reading->available;
		*ret_slabs = less(reading->in_use, (lacking + config->slab_bytes - 1) / config->slab_bytes);
		return true;
	}
	if (!reading->stalls || reading->available - config->reserve >= config->reserve + 2 * margin(config))
		return false;
	/* If slabs are on their way back, an earlier reading took this step already. */
	*ret_slabs = less(reading->in_use, reading->going ? reading->going : step(config));
	return true;
}

uint32_t pressure_read(struct pressure *pressure, uint64_t now, const struct pressure_reading *reading)
{
	const struct pressure_config *config = &pressure->config;
	uint32_t may = most(config, reading);
	const bool pressed = is_pressed(config, reading, &may);

	if (pressed) {
		if (pressure->state != PRESSURE_PRESSED)
			state_move(pressure, PRESSURE_PRESSED);
		pressure->pressed_at = now;
	} else if (pressure->state == PRESSURE_PRESSED && now - pressure->pressed_at >= PRESSURE_CALM_NS) {
		state_move(pressure, PRESSURE_GROWING);
		pressure->step_at = now;
	}
	if (may < pressure->target || pressure->state == PRESSURE_CALM) {
		pressure->target = may;
	} else if (pressure->state == PRESSURE_GROWING && now >= pressure->step_at) {
		pressure->target = may - pressure->target > step(config) ? pressure->target + step(config) : may;
		pressure->step_at = now + PRESSURE_STEP_NS;
	}
	if (pressure->state == PRESSURE_GROWING && pressure->target >= may)
		state_move(pressure, PRESSURE_CALM);
	pressure->read_at = now + (reading->available < 2 * config->reserve + margin(config) ? PRESSURE_READ_SHORT_NS
											     : PRESSURE_READ_NS);
	return pressure->target;
}
