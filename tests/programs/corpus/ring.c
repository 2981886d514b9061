/* Two MPI processes send 64 MB to each other, three times. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define PARTS 8
#define COUNT (1 << 20) /* numbers in a part */

int main(int argc, char **argv)
{
	static double *parts[PARTS];
	double *in = malloc(COUNT * sizeof *in), sum = 0, all;
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int part = 0; part < PARTS; part++) {
		parts[part] = malloc(COUNT * sizeof **parts);
		for (int i = 0; i < COUNT; i++)
			parts[part][i] = rank * 1000 + part + i;
	}
	for (int i = 0; i < 3 * PARTS; i++) {
		MPI_Sendrecv(parts[i % PARTS], COUNT, MPI_DOUBLE, (rank + 1) % size, 0, in, COUNT, MPI_DOUBLE,
			     (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int j = 0; j < COUNT; j++)
			sum += in[j] * (i + 1);
	}
	MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%.0f\n", all);
	MPI_Finalize();
	return 0;
}
