/*
 * commands: the verbs of the farpage command, one source file each; main.c holds their table.
 *
 * Each is called with argv[0] = its own name and returns the exit status: COMMAND_OK, COMMAND_FAILED after one line
 * on standard error that names the cause and the next step, COMMAND_USAGE when called wrongly. command_run passes the
 * status of the program it ran, and has statuses of its own beside those (run_child.h), as env(1) and nice(1) do.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

enum command_status {
	COMMAND_OK = 0,
	COMMAND_FAILED = 1,
	COMMAND_USAGE = 2,
	COMMAND_DEGRADED = 3, /* of a list: a device in it is degraded, */
	COMMAND_LOST = 4,     /* or has failed */
};

int command_run(int argc, char **argv);
int command_status(int argc, char **argv);
int command_donors(int argc, char **argv);
int command_disk(int argc, char **argv);
int command_swap(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_key(int argc, char **argv);

#endif
