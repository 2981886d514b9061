-- sqlite3 :memory: < join.sql, with the text in the file `rows`: which sources say what others said before them?
PRAGMA temp_store = memory;
CREATE TABLE line(source TEXT, says TEXT);
.mode ascii
.separator "\t" "\n"
.import rows line
CREATE INDEX line_says ON line(says);
CREATE TABLE saying AS SELECT says, count(*) AS times, min(rowid) AS first FROM line GROUP BY says HAVING times > 1;
CREATE UNIQUE INDEX saying_says ON saying(says);
.mode list
.separator " " "\n"
SELECT count(*), sum(length(says)) FROM line;
-- Each line looks up its saying, and that the line where it was said first: random access all over.
SELECT said.source, count(*) AS borrowed, count(DISTINCT first.source) AS lenders, sum(length(said.says))
	FROM line AS said JOIN saying ON saying.says = said.says JOIN line AS first ON first.rowid = saying.first
	WHERE first.source <> said.source
	GROUP BY said.source ORDER BY borrowed DESC, said.source LIMIT 2000;
SELECT times, count(*) FROM saying GROUP BY times ORDER BY times;
