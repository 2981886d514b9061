/*
 * doctor: the types and functions that all checks of `farpage doctor` share.
 *
 * Theory of operation. doctor.c has the table of checks. Each check works in three steps, once or for each device or
 * donor:
 * - A reading function collects facts about this process, /proc, /sys, devices or donors.
 * - A judging function turns the facts into a verdict. It knows nothing else about this host.
 * - The check adds the verdict with doctor_add().
 *
 * Nothing is changed on the host.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli/doctor/doctor_donors.h"
#include "cli/doctor/doctor_verdict.h"
#include "farpage/fabric_devices.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define DOCTOR_SUBJECT_MAX 300 /* long enough for a donor's address */

struct doctor;

struct doctor_check {
	const char *id;    /* "rdma.port"; stable, because programs use it */
	const char *group; /* "RDMA" */
	const char *title; /* "port"; begins the finding's line */
	void (*run)(struct doctor *doctor);
};

struct doctor_finding {
	const struct doctor_check *check;
	char subject[DOCTOR_SUBJECT_MAX]; /* "rxe0/1", "tcp://10.0.0.7"; empty for this host */
	struct doctor_verdict verdict;
};

struct doctor {
	/* The request. */
	uint64_t donate;  /* bytes to lend, or 0 if this host is not a donor */
	uint64_t swap;    /* bytes of the requested swap device, or 0 for none */
	bool client;      /* this host should be able to run programs */
	bool rdma_wanted; /* at least one donor is named as rdma:// */
	bool verbose;

	/* Collected before the checks, because it takes time. */
	struct fabric_devices devices;
	const struct donor_probe *probes;
	unsigned probe_count;

	/* The findings. */
	const struct doctor_check *check; /* the check that is running */
	struct doctor_finding *findings;
	unsigned count, room;
	bool truncated; /* findings are missing for want of memory */
};

/* Adds a finding of the running check. @subject is copied; NULL stands for this host. */
void doctor_add(struct doctor *doctor, const char *subject, const struct doctor_verdict *verdict);

/* Prints the findings on @file as text, wrapped to @width columns, or not wrapped if @width is 0. */
void doctor_print_text(const struct doctor *doctor, FILE *file, unsigned width, bool colour);
void doctor_print_json(const struct doctor *doctor, FILE *file);

#endif
