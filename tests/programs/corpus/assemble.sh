# Assembles a genome of 200,000 bases. SPAdes limits its address space to 4 GiB.
spades.py --only-assembler -k 33 -m 4 -t 1 -1 left.fastq -2 right.fastq -o assembly >log 2>&1 || { tail log >&2; exit 1; }
grep -v '>' assembly/contigs.fasta | cksum
