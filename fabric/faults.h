/* faults: the layer behind fault+SCHEME:// (farpage/fabric_faults.h). Only inside fabric/. */
#ifndef FABRIC_FAULTS_H
#define FABRIC_FAULTS_H

#include "fabric/backend.h"
#include "farpage/fabric_faults.h"

#define FAULTS_PREFIX "fault+"

struct faults;

/* Opens the layer. @schedule may be NULL for no faults. Returns 0 or -errno. */
int faults_open(struct fabric *fabric, struct fabric_faults *schedule, struct faults **ret_faults);
/* Ends every connection of the layer and frees it. Takes NULL. */
void faults_close(struct faults *faults);
/* Starts a connection of @backend and wraps it into one of the layer. */
int faults_connect(struct faults *faults, const struct fabric_backend *backend, void *state,
		   struct fabric_domain *domain, const struct uri *uri, const void *private_data, size_t private_size,
		   struct fabric_conn **ret_conn);

/* Turns the events from @first on, which backends wrote, into the events that the user of the layer gets. */
void faults_filter(struct faults *faults, struct backend_events *out, unsigned first);
/* Writes events that have been held back long enough. Returns true if there were any. */
bool faults_poll(struct faults *faults, struct backend_events *out);
bool faults_ready(const struct faults *faults);
uint64_t faults_deadline(const struct faults *faults);

#endif
