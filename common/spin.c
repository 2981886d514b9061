/* spin: see spin.h. */
#include "common/spin.h"

void spin_init(struct spin *spin, unsigned us)
{
	spin->least_ns = us * 1000ull;
	spin->most_ns = spin->least_ns * SPIN_GROWTH;
	spin->ns = spin->least_ns;
}

void spin_learn(struct spin *spin, uint64_t took)
{
	if (took <= spin->ns)
		return;
	if (took > spin->most_ns)
		spin->ns = spin->ns / 2 > spin->least_ns ? spin->ns / 2 : spin->least_ns;
	else if (spin->ns < spin->most_ns)
		spin->ns *= 2;
}
