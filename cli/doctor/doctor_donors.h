/* doctor_donors: checks whether the donors answer, over which fabric, and how far away they are. */
#ifndef CLI_DOCTOR_DONORS_H
#define CLI_DOCTOR_DONORS_H

#include "cli/doctor/doctor_verdict.h"
#include "farpage/wire.h"

#include <stdbool.h>
#include <stdint.h>

/* The result of one conversation with one donor. */
struct donor_probe {
	const char *uri;
	int status;                  /* 0, or -errno if it failed */
	uint16_t reason, detail;     /* from the donor, if it refused (enum wire_reason) */
	char peer[64];               /* the donor's address as reached, "rdma://10.0.0.7:7470" */
	uint64_t connect_ns;         /* from the first packet to the end of the handshake */
	unsigned rounds;             /* control messages answered after the handshake */
	uint64_t round_ns, worst_ns; /* median and longest of these rounds */
	struct wire_capacity capacity;
};

/* @rdma: this host has an RDMA device. */
struct doctor_verdict doctor_judge_reach(const struct donor_probe *probe, bool rdma);
struct doctor_verdict doctor_judge_free(const struct donor_probe *probe);
struct doctor_verdict doctor_judge_distance(const struct donor_probe *probe);

/* Talks with all donors in @uris at once, each step for at most @connect_ms. Fills in one of @probes for each. @key:
   AUTH_KEY_SIZE bytes, or NULL. Logs nothing. */
void doctor_donors_probe(const char *const *uris, unsigned count, const uint8_t *key, unsigned connect_ms,
			 struct donor_probe *probes);

struct doctor;
void doctor_donors_reach(struct doctor *doctor);
void doctor_donors_free(struct doctor *doctor);
void doctor_donors_distance(struct doctor *doctor);

#endif
