/*
 * doctor: what the checks of `farpage doctor` share.
 *
 * Theory of operation. doctor.c has the table of checks. Each check looks at facts (this process, /proc, /sys, devices,
 * donors) with a reading function, gives them to a judging function that knows nothing of this host, and adds what that
 * says, once or for each device or donor. Nothing is changed on the host.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli/doctor_donors.h"
#include "cli/doctor_verdict.h"
#include "farpage/fabric_devices.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define DOCTOR_SUBJECT_MAX 300 /* an address of a donor */

struct doctor;

struct doctor_check {
	const char *id;    /* "rdma.port": stable, for programs */
	const char *group; /* "RDMA" */
	const char *title; /* "port": of one line */
	void (*run)(struct doctor *doctor);
};

struct doctor_finding {
	const struct doctor_check *check;
	char subject[DOCTOR_SUBJECT_MAX]; /* "rxe0/1", "tcp://10.0.0.7"; empty: this host */
	struct doctor_verdict verdict;
};

struct doctor {
	/* Asked for. */
	uint64_t donate;  /* bytes to lend; 0: this host is no donor */
	uint64_t swap;    /* bytes of a swap device it is to have; 0: not asked for */
	bool client;      /* it is to run programs */
	bool rdma_wanted; /* some donor is rdma:// */
	bool verbose;

	/* Found out before the checks, as it takes time. */
	struct fabric_devices devices;
	const struct donor_probe *probes;
	unsigned probe_count;

	/* What the checks say. */
	const struct doctor_check *check; /* being run */
	struct doctor_finding *findings;
	unsigned count, room;
	bool truncated; /* no memory for more */
};

/* Called by a check: @subject is copied; NULL for this host. */
void doctor_add(struct doctor *doctor, const char *subject, const struct doctor_verdict *verdict);

/* On @file, wrapped to @width columns; 0: not at all. */
void doctor_print_text(const struct doctor *doctor, FILE *file, unsigned width, bool colour);
void doctor_print_json(const struct doctor *doctor, FILE *file);

#endif
