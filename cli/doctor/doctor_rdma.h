/* doctor_rdma: checks whether RDMA can be used and is set up well. Judges what fabric_devices_read() found. */
#ifndef CLI_DOCTOR_RDMA_H
#define CLI_DOCTOR_RDMA_H

#include "cli/doctor/doctor_verdict.h"
#include "farpage/fabric_devices.h"

#include <stdbool.h>

/* @wanted: at least one donor is named as rdma://. Then a problem that keeps RDMA from working fails instead of
   warning. */
struct doctor_verdict doctor_judge_devices(const struct fabric_devices *devices, bool wanted);
struct doctor_verdict doctor_judge_cm(const struct fabric_devices *devices, bool wanted);
struct doctor_verdict doctor_judge_port(const struct fabric_port *port, bool wanted);
struct doctor_verdict doctor_judge_mtu(const struct fabric_port *port);
/* @donate: bytes that this host should lend, or 0. */
struct doctor_verdict doctor_judge_limits(const struct fabric_device *device, uint64_t donate, bool wanted);

struct doctor;
void doctor_rdma_devices(struct doctor *doctor);
void doctor_rdma_cm(struct doctor *doctor);
void doctor_rdma_ports(struct doctor *doctor);
void doctor_rdma_mtu(struct doctor *doctor);
void doctor_rdma_limits(struct doctor *doctor);

#endif
