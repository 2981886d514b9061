-- Tables, an index and a join in memory.
create table one (number integer, text text);
create table two (number integer, other integer);
with recursive count (n) as (select 1 union all select n + 1 from count where n < 200000)
	insert into one select n * 7919 % 200003, 'text of number ' || n from count;
with recursive count (n) as (select 1 union all select n + 1 from count where n < 100000)
	insert into two select n, n * 31 % 1000 from count;
create index one_number on one (number);
select other % 10, count(*), sum(length(text)) from one join two on one.number = two.number group by 1 order by 1;
