/* survival: see survival.h. */
#include "cli/survival.h"

#include "client/far.h"

#include <assert.h>

struct survival survival_of(unsigned copies, bool backup)
{
	static const struct survival all[FAR_REPLICAS_MAX][2] = {
	    {{"no donor's death: its pages are lost", "nothing more"},
	     {"the death of all donors, except for pages that are not on the disk yet (those of some milliseconds; a "
	      "line says when there are more)",
	      "a local disk that takes every write; pages of dead donors are read from it, and pages without room on "
	      "donors are written to it, at the disk's pace"}},
	    {{"the death of 1 donor, and of another once the lost copies are made again",
	      "2 x the donors' memory, and every write sent twice"},
	     {"the death of 1 donor without a pause, and of all donors, except for pages that are not on the disk yet",
	      "2 x the donors' memory, every write sent twice, and a local disk that takes every write"}},
	    {{"the death of 2 donors at once, and of others once the lost copies are made again",
	      "3 x the donors' memory, and every write sent three times"},
	     {"the death of 2 donors at once without a pause, and of all donors, except for pages that are not on the "
	      "disk yet",
	      "3 x the donors' memory, every write sent three times, and a local disk that takes every write"}},
	};

	assert(copies >= 1 && copies <= FAR_REPLICAS_MAX);
	return all[copies - 1][backup];
}
