/* survival: see survival.h. */
#include "cli/survival.h"

#include "client/far.h"

#include <assert.h>

struct survival survival_of(unsigned copies, bool backup)
{
	/* The same words as in docs/faults.md. */
	static const struct survival all[FAR_REPLICAS_MAX][2] = {
	    {{"no donor's death: what it held is lost", "nothing more"},
	     {"the death of all donors, but for pages not yet on the disk (it is milliseconds behind, and told when "
	      "more)",
	      "a local disk that takes every write; what a dead donor held is read, and what no donor has room for is "
	      "written, at the disk's pace"}},
	    {{"the death of 1 donor, and of another once what it held is copied again",
	      "2 x the donors' memory, and every write sent twice"},
	     {"the death of 1 donor without a pause, and of all but for pages not yet on the disk",
	      "2 x the donors' memory, every write sent twice, and a local disk that takes every write"}},
	    {{"the death of 2 donors at once, and of others once what they held is copied again",
	      "3 x the donors' memory, and every write sent three times"},
	     {"the death of 2 donors at once without a pause, and of all but for pages not yet on the disk",
	      "3 x the donors' memory, every write sent three times, and a local disk that takes every write"}},
	};

	assert(copies >= 1 && copies <= FAR_REPLICAS_MAX);
	return all[copies - 1][backup];
}
