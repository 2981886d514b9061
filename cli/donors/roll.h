/*
 * roll: farpage donors roll, which drains donors one after the other, and runs a command for each. commands.h says how
 * it is called.
 *
 * Theory of operation. The steps for each donor:
 *
 *   CHECK    all donors are ready (roll_check.h)
 *   DRAIN    the donor is drained by the functions of `farpage donors drain`
 *   COMMAND  the command runs (roll_each.h); no session with the donor is open
 *   RETURN   the roll connects again and again until the donor answers, because the command may have restarted it
 *   UNDRAIN  the donor lends again
 *
 * The roll stops at the first failure, and says in one line where it stopped, the donor's state, and how to continue.
 * If the drain fails, the donor lends again, because nothing has happened to the machine. After the command has begun,
 * the donor stays drained, because the machine may be broken. A signal has the same effects. A signal that arrives
 * during the command is passed on to the command, and the roll waits for the command's end.
 *
 * Threads: the caller's.
 */
#ifndef CLI_ROLL_H
#define CLI_ROLL_H

int roll_command(int argc, char **argv);

#endif
