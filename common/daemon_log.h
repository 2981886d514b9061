/*
 * daemon_log: the log of a daemon. Lines to the journal become entries with fields, and lines to a regular file begin
 * with the time. On a terminal or a pipe, lines stay as they are.
 *
 * Theory of operation. If standard error is the journal (log.h), each line is sent to journald as one datagram, in the
 * journal's native protocol (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/). Its fields are PRIORITY, SYSLOG_IDENTIFIER,
 * MESSAGE, and those of log_event(): MESSAGE_ID, DONOR, CLIENT, DEVICE. sd_journal_send(3) is not used, because it
 * waits while journald is stopped. Clients would then miss heartbeats of the donor, and journald itself may wait for
 * pages on a device. A datagram that cannot be sent at once is written to standard error instead, as a line without
 * fields.
 *
 * A daemon that was started from the journal may later replace its standard error by the kernel's log, because journald
 * may wait for it. Its lines are still sent to journald, because a datagram never waits. If standard error is replaced
 * by a regular file, which somebody asked for, lines are written to the file.
 *
 * The time is UTC (ISO 8601), because finding the local time reads files.
 *
 * Threads: daemon_log_open() runs before other threads start. Then lines may come from any thread, and
 * daemon_log_stamp() may be called by any thread.
 */
#ifndef COMMON_DAEMON_LOG_H
#define COMMON_DAEMON_LOG_H

#include <stdbool.h>

#define DAEMON_LOG_JOURNAL "/run/systemd/journal/socket"

/* Call it after log_setup(). @journal is DAEMON_LOG_JOURNAL, or the socket of a test. */
void daemon_log_open(const char *journal);
/* Chooses if lines to a file begin with the time, which is the default. A process that waits for the daemon's start may
   keep the lines in a file and show them to its user, who needs no time. */
void daemon_log_stamp(bool stamped);

#endif
