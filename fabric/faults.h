/* faults: the layer behind fault+SCHEME:// (farpage/fabric_faults.h). Only inside fabric/. */
#ifndef FABRIC_FAULTS_H
#define FABRIC_FAULTS_H

#include "fabric/backend.h"
#include "farpage/fabric_faults.h"

#define FAULTS_PREFIX "fault+"

struct faults;

/* @schedule: NULL for none. */
int faults_open(struct fabric *fabric, struct fabric_faults *schedule, struct faults **ret_faults);
/* Ends every connection of the layer. Takes NULL. */
void faults_close(struct faults *faults);
/* Puts a connection of the layer around one that @backend starts. */
int faults_connect(struct faults *faults, const struct fabric_backend *backend, void *state,
		   struct fabric_domain *domain, const struct uri *uri, const void *private_data, size_t private_size,
		   struct fabric_conn **ret_conn);

/* Turns the events from @first on, which backends wrote, into those that the layer's users are to see. */
void faults_filter(struct faults *faults, struct backend_events *out, unsigned first);
/* Writes what has been held back long enough. True: something was. */
bool faults_poll(struct faults *faults, struct backend_events *out);
bool faults_ready(const struct faults *faults);
uint64_t faults_deadline(const struct faults *faults);

#endif
