/* run_donors: see run_donors.h. */
#include "cli/run/run_donors.h"

#include "cli/ask.h"
#include "cli/run/run_options.h"
#include "client/backup/backup_disk.h"
#include "client/lease/failure_domains.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/size.h"
#include "wire/auth.h"

#include <errno.h>
#include <unistd.h>

/* The time limit for a donor's answer. The user hears of a missing donor within two seconds. */
#define ANSWER_MS 1800
#define WAIT_MS 5000u /* how long full donors are asked again */
#define LOOK_MS 250u

struct room {
	uint64_t most; /* what free_bytes would be if nobody leased anything */
	bool clears;   /* a donor has no slab ready, because it clears all that are free */
};

/* Asks all donors of @config at once. Returns 0, or the first donor's -errno after one logged line for each donor
   that did not answer. Returns -EINVAL after one logged line if the donors are in too few failure domains. */
static int ask(const struct far_config *config, struct run_donors *ret_donors, struct room *ret_room)
{
	struct far_donor_info answers[FAR_DONORS_MAX] = {0};
	struct ask asks[FAR_DONORS_MAX];
	struct failure_domains domains = {0};
	char text[FAILURE_DOMAINS_TEXT_MAX];
	int error = 0;

	for (unsigned i = 0; i < config->donor_count; i++)
		asks[i] = (struct ask){.config = config, .uri = config->donors[i], .answer = &answers[i]};
	ask_all(asks, config->donor_count, ask_figures);
	for (unsigned i = 0; i < config->donor_count && !error; i++)
		error = asks[i].status;
	if (error)
		return error;
	for (unsigned i = 0; i < config->donor_count; i++)
		failure_domains_name(&domains, i, answers[i].failure_domain);
	if (failure_domains_lack(&domains, config->donor_count, config->replicas, config->donors, text)) {
		log_error("%s", text);
		return -EINVAL;
	}
	ret_donors->free_bytes = failure_domains_room(answers, config->donor_count, config->replicas);
	ret_donors->slab_bytes = answers[0].slab_bytes;
	ret_room->clears = false;
	for (unsigned i = 0; i < config->donor_count; i++) {
		ret_room->clears |= answers[i].state == WIRE_STATE_CLEARING;
		if (answers[i].state != WIRE_STATE_DRAINING)
			answers[i].leased = 0;
	}
	ret_room->most = failure_domains_room(answers, config->donor_count, config->replicas);
	return 0;
}

/* Asks the donors until they have @wanted bytes free, at most for WAIT_MS. A donor has the memory of an ended program
   back after some seconds: it first waits for the program to return, and then clears the memory. Also waits while a
   donor has no slab ready, because a write to a device would then fail. Returns 0, or -errno after one logged line. */
static int ask_until_free(const struct far_config *config, uint64_t wanted, struct run_donors *ret_donors)
{
	uint64_t begin = clock_now();
	struct room room;
	int error = ask(config, ret_donors, &room);
	bool told = false;

	while (!error && ((ret_donors->free_bytes < wanted && wanted <= room.most) || room.clears) &&
	       clock_now() - begin < WAIT_MS * UINT64_C(1000000)) {
		if (!told && !room.clears)
			log_warning("the donors are full: waiting up to %u s for memory of programs that have ended",
				    WAIT_MS / 1000);
		told |= !room.clears;
		usleep(LOOK_MS * 1000);
		error = ask(config, ret_donors, &room);
	}
	return error;
}

int run_donors_check(const struct run_options *options, struct run_donors *ret_donors)
{
	static uint8_t key[AUTH_KEY_SIZE];
	struct far_config config = {.donors = options->donors.items,
				    .donor_count = options->donors.count,
				    .replicas = options->replicas,
				    .encrypt = options->encrypt,
				    .backup = options->backup,
				    .fabric = FABRIC_CONFIG_DEFAULT};
	char wanted[SIZE_TEXT_MAX], unused[SIZE_TEXT_MAX];
	uint64_t free_bytes;

	config.fabric.connect_ms = ANSWER_MS;
	int error = ask_with_key(&config, options->key_file, key);
	if (!error)
		error = far_check(&config);
	if (!error)
		error = ask_until_free(&config, options->far ? options->far : 1, ret_donors);
	if (error)
		return error;
	free_bytes = ret_donors->free_bytes;
	if (!free_bytes || free_bytes < options->far) {
		if (options->far)
			log_error("--far %s is more than the donors have free%s: %s; add a donor or ask for less",
				  size_format(options->far, wanted),
				  options->replicas > 1 ? " for as many replicas" : "",
				  size_format(free_bytes, unused));
		else
			log_error("the donors have nothing free; `farpage donors` shows what each lends");
		return -ENOSPC;
	}
	return options->backup ? backup_disk_check(options->backup, free_bytes) : 0;
}
