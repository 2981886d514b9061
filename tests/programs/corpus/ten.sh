# Ten commands on one text.
set -e
sort lines >sorted
sort -rn lines | head -n 3
cut -d' ' -f1 lines | sort -u | wc -l
awk '{ sum[$1 % 1000] += $3 } END { for (key in sum) print key, sum[key] }' lines | sort | cksum
rev lines | sort | cksum
tac lines | cksum
comm -12 sorted sorted | wc -l
paste sorted lines | cksum
xz -T1 -1 <lines | xz -d | cmp - lines && echo same
