# A table of one and a half million rows, grouped, sorted and joined.
library(data.table)
setDTthreads(2)
set.seed(1)
rows <- data.table(group = sample(1e5L, 1.5e6, TRUE), value = runif(1.5e6), letter = sample(letters, 1.5e6, TRUE))
groups <- rows[, .(mean = mean(value), count = .N), by = .(group, letter)]
setkey(groups, group, letter)
print(groups[1:5])
setorder(rows, value)
print(rows[1:3])
print(sum(merge(rows, unique(groups, by = "group"), by = "group")$count))
