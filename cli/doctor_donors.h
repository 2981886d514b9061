/* doctor_donors: are the donors there, over which fabric, and how far away? */
#ifndef CLI_DOCTOR_DONORS_H
#define CLI_DOCTOR_DONORS_H

#include "cli/doctor_verdict.h"
#include "farpage/wire.h"

#include <stdbool.h>
#include <stdint.h>

/* One conversation with one donor. */
struct donor_probe {
	const char *uri;
	int status;                  /* 0, or -errno: why there was none */
	uint16_t reason, detail;     /* the donor's own, if it refused (enum wire_reason) */
	char peer[64];               /* "rdma://10.0.0.7:7470": how it was reached */
	uint64_t connect_ns;         /* from the first packet to the end of the handshake */
	unsigned rounds;             /* control messages answered after that */
	uint64_t round_ns, worst_ns; /* median and longest of them */
	struct wire_capacity capacity;
};

/* @rdma: this host has an RDMA device. */
struct doctor_verdict doctor_judge_reach(const struct donor_probe *probe, bool rdma);
struct doctor_verdict doctor_judge_free(const struct donor_probe *probe);
struct doctor_verdict doctor_judge_distance(const struct donor_probe *probe);

/*
 * Talks with all of @uris at once, @connect_ms at most with each step; @key: AUTH_KEY_SIZE bytes or NULL. Logs nothing.
 */
void doctor_donors_probe(const char *const *uris, unsigned count, const uint8_t *key, unsigned connect_ms,
			 struct donor_probe *probes);

struct doctor;
void doctor_donors_reach(struct doctor *doctor);
void doctor_donors_free(struct doctor *doctor);
void doctor_donors_distance(struct doctor *doctor);

#endif
