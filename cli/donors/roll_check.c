/* roll_check: see roll_check.h. */
#include "cli/donors/roll_check.h"

#include "cli/ask.h"
#include "cli/donors/visit.h"
#include "client/donor/operate.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <stdio.h>

/* Asks whether this key may drain the donor. Returns 0, or -errno after one logged line. */
static int right_ask(struct operate *operate, const char *uri)
{
	const struct wire_message request = {.type = WIRE_HOLDER};
	const struct visit visit = {.uri = uri};
	struct wire_message answer;
	int status = operate_ask(operate, &request, &answer);

	if (status < 0 || answer.type == WIRE_HOLDER_REPLY)
		return status;
	return visit_denied(&visit, &answer);
}

/* A question for ask_all(). */
static void donor_ask(struct ask *ask)
{
	struct roll_donor *donor = ask->answer;
	struct operate_refusal refusal;
	struct operate *operate;

	if (donor->passed_over)
		ask->status = operate_try(ask->config, ask->uri, &refusal, &operate);
	else
		ask->status = operate_open(ask->config, ask->uri, &operate);
	if (ask->status < 0)
		return;
	operate_figures(operate, &donor->figures);
	donor->incarnation = operate_incarnation(operate);
	if (!donor->passed_over)
		ask->status = right_ask(operate, ask->uri);
	operate_close(operate);
}

static bool is_drained(const struct roll_donor *donor)
{
	return donor->figures.state == WIRE_STATE_DRAINING;
}

/* Returns true if the donor with index @i is ready, before the donor with index @at is drained. Returns false after a
   line that donor_ask() or this function logged. */
static bool is_ready(const struct roll_donors *donors, unsigned i, unsigned at)
{
	const struct roll_donor *donor = &donors->of[i];

	if (donor->passed_over)
		return true;
	if (!donor->answers)
		return false;
	if (i < at || !is_drained(donor) || (donors->from && i == donors->start))
		return true;
	log_error("donor %s is drained already, perhaps for maintenance: undrain it, leave it out, or begin with it by "
		  "--from %s",
		  donor->uri, donor->uri);
	return false;
}

unsigned roll_check(struct roll_donors *donors, unsigned at, const struct far_config *config)
{
	struct ask asks[CONFIG_LIST_MAX];
	unsigned unready = 0;

	for (unsigned i = 0; i < donors->count; i++)
		asks[i] = (struct ask){.config = config, .uri = donors->of[i].uri, .answer = &donors->of[i]};
	ask_all(asks, donors->count, donor_ask);
	for (unsigned i = 0; i < donors->count; i++) {
		donors->of[i].answers = asks[i].status == 0;
		unready += !is_ready(donors, i, at);
	}
	return unready;
}

/* Returns the memory that clients can still lease from all donors except the donor with index @but. */
static uint64_t free_elsewhere(const struct roll_donors *donors, unsigned but)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < donors->count; i++)
		if (i != but && donors->of[i].answers && !is_drained(&donors->of[i]))
			sum += ask_free(&donors->of[i].figures);
	return sum;
}

void roll_check_space(const struct roll_donors *donors, bool timeout)
{
	char leased[SIZE_TEXT_MAX], left[SIZE_TEXT_MAX], more[64] = "";
	unsigned worst = 0, tight = 0;
	uint64_t most = 0;

	for (unsigned i = donors->start; i < donors->count && donors->count > 1; i++) {
		const struct far_donor_info *figures = &donors->of[i].figures;

		if (figures->leased <= free_elsewhere(donors, i))
			continue;
		tight++;
		if (figures->leased <= most)
			continue;
		most = figures->leased;
		worst = i;
	}
	if (!tight)
		return;
	if (tight > 1)
		snprintf(more, sizeof more, ", and %u more are like it", tight - 1);
	log_warning(
	    "%s leases %s to clients, but the other donors have only %s free%s: its drain waits while its pages "
	    "have no other place%s",
	    donors->of[worst].uri, size_format(most, leased), size_format(free_elsewhere(donors, worst), left), more,
	    timeout ? "" : "; --timeout limits the wait");
}
