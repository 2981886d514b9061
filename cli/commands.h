/*
 * commands: the verbs of the farpage command, one source file each. main.c has their table.
 *
 * Each function gets its own name as argv[0] and returns the exit status:
 * - COMMAND_OK;
 * - COMMAND_FAILED after one line on standard error that names the cause and the next step;
 * - COMMAND_USAGE if the command line is wrong.
 *
 * command_run returns the status of the program that it ran. Like env(1) and nice(1), it can also return statuses of
 * its own (enum run_status in run_program.h).
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

enum command_status {
	COMMAND_OK = 0,
	COMMAND_FAILED = 1,
	COMMAND_USAGE = 2,
	COMMAND_DEGRADED = 3, /* a list shows a degraded device */
	COMMAND_LOST = 4,     /* a list shows a failed device */
};

int command_run(int argc, char **argv);
int command_status(int argc, char **argv);
int command_advise(int argc, char **argv);
int command_top(int argc, char **argv);
int command_donors(int argc, char **argv);
int command_disk(int argc, char **argv);
int command_swap(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_key(int argc, char **argv);
int command_helper(int argc, char **argv);

#endif
