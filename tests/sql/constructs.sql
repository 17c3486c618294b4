-- a column of some rows
SELECT name FROM emp WHERE salary > 100;
--> ('ann',)
--> ('bob',)

-- an expression
SELECT name, salary * 2 + 1 AS s FROM emp;
--> ('ann', 401)
--> ('bob', 301)
--> ('cy', None)
--> ('di', 181)
--> ('ed', 201)
--> ('flo', 201)

-- every row once
SELECT dept FROM emp;
--> (None,)
--> (1,)
--> (2,)
--> (9,)

-- DISTINCT
SELECT DISTINCT boss FROM emp;
--> (None,)
--> (1,)
--> (2,)

-- a join
SELECT e.name, d.title FROM emp e JOIN dept d ON e.dept = d.id;
--> ('ann', 'tools')
--> ('bob', 'tools')
--> ('ed', 'sales')

-- a join with a comma
SELECT e.name, d.title FROM emp e, dept d WHERE e.dept = d.id AND d.title <> 'tools';
--> ('ed', 'sales')

-- USING
SELECT id, name, title FROM emp JOIN dept USING (id);
--> (1, 'ann', 'tools')
--> (2, 'bob', 'sales')
--> (3, 'cy', 'food')

-- NATURAL JOIN
SELECT * FROM dept NATURAL JOIN (SELECT id FROM emp) e;
--> (1, 'tools')
--> (2, 'sales')
--> (3, 'food')

-- LEFT JOIN
SELECT e.name, d.title FROM emp e LEFT JOIN dept d ON e.dept = d.id;
--> ('ann', 'tools')
--> ('bob', 'tools')
--> ('cy', None)
--> ('di', None)
--> ('ed', 'sales')
--> ('flo', None)

-- RIGHT JOIN
SELECT e.name, d.title FROM emp e RIGHT JOIN dept d ON e.dept = d.id;
--> (None, 'food')
--> ('ann', 'tools')
--> ('bob', 'tools')
--> ('ed', 'sales')

-- FULL JOIN
SELECT e.name, d.title FROM emp e FULL JOIN dept d ON e.dept = d.id AND e.salary > 100;
--> (None, 'food')
--> (None, 'sales')
--> ('ann', 'tools')
--> ('bob', 'tools')
--> ('cy', None)
--> ('di', None)
--> ('ed', None)
--> ('flo', None)

-- FULL JOIN USING
SELECT id, name, title FROM emp FULL JOIN dept USING (id);
--> (1, 'ann', 'tools')
--> (2, 'bob', 'sales')
--> (3, 'cy', 'food')
--> (4, 'di', None)
--> (5, 'ed', None)
--> (6, 'flo', None)

-- two outer joins
SELECT e.name, b.name AS boss, d.title FROM emp e LEFT JOIN emp b ON e.boss = b.id LEFT JOIN dept d ON b.dept = d.id;
--> ('ann', None, None)
--> ('bob', 'ann', 'tools')
--> ('cy', 'ann', 'tools')
--> ('di', 'bob', 'tools')
--> ('ed', None, None)
--> ('flo', 'bob', 'tools')

-- a join with itself leaves NULL out
SELECT a.name, b.name AS other FROM emp a JOIN emp b ON a.dept = b.dept WHERE a.id < b.id;
--> ('ann', 'bob')

-- unknown is not true
SELECT name FROM emp WHERE NOT (salary > 100);
--> ('di',)
--> ('ed',)
--> ('flo',)

-- IS NULL
SELECT name FROM emp WHERE boss IS NULL AND dept IS NOT NULL;
--> ('ann',)
--> ('ed',)

-- IS NOT TRUE
SELECT name FROM emp WHERE (salary > 100) IS NOT TRUE;
--> ('cy',)
--> ('di',)
--> ('ed',)
--> ('flo',)

-- IS DISTINCT FROM
SELECT name FROM emp WHERE dept IS DISTINCT FROM 1;
--> ('cy',)
--> ('di',)
--> ('ed',)
--> ('flo',)

-- IS NOT DISTINCT FROM
SELECT a.name, b.name AS other FROM emp a, emp b WHERE a.dept IS NOT DISTINCT FROM b.dept AND a.id < b.id;
--> ('ann', 'bob')
--> ('cy', 'di')

-- a list
SELECT name FROM emp WHERE dept IN (1, 3);
--> ('ann',)
--> ('bob',)

-- a list with NULL
SELECT name FROM emp WHERE dept NOT IN (1, NULL);
--> none

-- a long list
SELECT name FROM emp WHERE id NOT IN (1, 2, 3, 11, 12, 13, 14, 15, 16, 17);
--> ('di',)
--> ('ed',)
--> ('flo',)

-- BETWEEN
SELECT name FROM emp WHERE salary BETWEEN 100 AND 150;
--> ('bob',)
--> ('ed',)
--> ('flo',)

-- LIKE
SELECT name FROM emp WHERE name LIKE '_o%';
--> ('bob',)

-- NOT LIKE
SELECT title FROM dept WHERE title NOT LIKE '%s';
--> ('food',)

-- CASE
SELECT name, CASE WHEN salary > 120 THEN 'high' WHEN salary > 0 THEN 'low' ELSE 'unknown' END AS level FROM emp;
--> ('ann', 'high')
--> ('bob', 'high')
--> ('cy', 'unknown')
--> ('di', 'low')
--> ('ed', 'low')
--> ('flo', 'low')

-- CASE of a value
SELECT name, CASE dept WHEN 1 THEN 'one' WHEN 2 THEN 'two' END AS d FROM emp;
--> ('ann', 'one')
--> ('bob', 'one')
--> ('cy', None)
--> ('di', None)
--> ('ed', 'two')
--> ('flo', None)

-- COALESCE
SELECT name, COALESCE(boss, dept, 0) AS c FROM emp;
--> ('ann', 1)
--> ('bob', 1)
--> ('cy', 1)
--> ('di', 2)
--> ('ed', 2)
--> ('flo', 2)

-- NULLIF
SELECT name, NULLIF(dept, 1) AS d FROM emp;
--> ('ann', None)
--> ('bob', None)
--> ('cy', None)
--> ('di', None)
--> ('ed', 2)
--> ('flo', 9)

-- GREATEST and LEAST skip NULL
SELECT name, GREATEST(dept, boss) AS g, LEAST(dept, boss) AS l FROM emp;
--> ('ann', 1, 1)
--> ('bob', 1, 1)
--> ('cy', 1, 1)
--> ('di', 2, 2)
--> ('ed', 2, 2)
--> ('flo', 9, 2)

-- text
SELECT name || '/' || title AS path, LENGTH(name) AS n, SUBSTRING(name, 2, 2) AS part FROM emp JOIN dept ON dept =
dept.id;
--> ('ann/tools', 3, 'nn')
--> ('bob/tools', 3, 'ob')
--> ('ed/sales', 2, 'd')

-- a condition as a value
SELECT name, salary > 100 AS rich FROM emp;
--> ('ann', True)
--> ('bob', True)
--> ('cy', None)
--> ('di', False)
--> ('ed', False)
--> ('flo', False)

-- EXISTS
SELECT name FROM emp e WHERE EXISTS (SELECT 1 FROM emp f WHERE f.boss = e.id);
--> ('ann',)
--> ('bob',)

-- NOT EXISTS
SELECT name FROM emp e WHERE NOT EXISTS (SELECT 1 FROM emp f WHERE f.boss = e.id AND f.salary > e.salary);
--> ('ann',)
--> ('bob',)
--> ('cy',)
--> ('di',)
--> ('ed',)
--> ('flo',)

-- EXISTS that asks for NULL
SELECT name FROM emp e WHERE EXISTS (SELECT 1 FROM dept d WHERE d.id = e.dept OR e.dept IS NULL);
--> ('ann',)
--> ('bob',)
--> ('cy',)
--> ('di',)
--> ('ed',)

-- IN a query
SELECT title FROM dept WHERE id IN (SELECT dept FROM emp);
--> ('sales',)
--> ('tools',)

-- NOT IN a query with NULL
SELECT title FROM dept WHERE id NOT IN (SELECT dept FROM emp);
--> none

-- NOT IN a query without NULL
SELECT title FROM dept WHERE id NOT IN (SELECT dept FROM emp WHERE dept IS NOT NULL);
--> ('food',)

-- NOT IN of NULL
SELECT name FROM emp WHERE dept NOT IN (SELECT id FROM dept WHERE id > 1);
--> ('ann',)
--> ('bob',)
--> ('flo',)

-- NOT IN an empty query
SELECT name FROM emp WHERE dept NOT IN (SELECT id FROM dept WHERE id > 100);
--> ('ann',)
--> ('bob',)
--> ('cy',)
--> ('di',)
--> ('ed',)
--> ('flo',)

-- a correlated IN
SELECT name FROM emp e WHERE 1 IN (SELECT d.id FROM dept d WHERE d.id = e.dept);
--> ('ann',)
--> ('bob',)

-- rows in a query
SELECT name FROM emp WHERE (dept, boss) IN (SELECT id, 1 FROM dept);
--> ('bob',)

-- ANY
SELECT name FROM emp WHERE salary > ANY (SELECT salary FROM emp WHERE dept = 2);
--> ('ann',)
--> ('bob',)

-- ALL
SELECT name FROM emp WHERE salary >= ALL (SELECT salary FROM emp WHERE dept = 1);
--> ('ann',)

-- ALL of nothing
SELECT name FROM emp WHERE salary > ALL (SELECT salary FROM emp WHERE dept = 9);
--> ('ann',)
--> ('bob',)

-- a single value
SELECT name FROM emp WHERE salary = (SELECT max(salary) FROM emp);
--> ('ann',)

-- a correlated value
SELECT name, (SELECT count(*) FROM emp f WHERE f.boss = e.id) AS reports, (SELECT max(f.salary) FROM emp f WHERE
f.boss = e.id) AS most FROM emp e;
--> ('ann', 2, 150)
--> ('bob', 2, 100)
--> ('cy', 0, None)
--> ('di', 0, None)
--> ('ed', 0, None)
--> ('flo', 0, None)

-- GROUP BY puts NULL together
SELECT dept, count(*) AS n FROM emp GROUP BY dept;
--> (None, 2)
--> (1, 2)
--> (2, 1)
--> (9, 1)

-- count of a column
SELECT dept, count(boss) AS n, count(DISTINCT boss) AS d FROM emp GROUP BY dept;
--> (None, 2, 2)
--> (1, 1, 1)
--> (2, 0, 0)
--> (9, 1, 1)

-- sum, min, max, avg
SELECT dept, sum(salary) AS s, min(salary) AS lo, max(salary) AS hi, avg(salary) AS mean FROM emp GROUP BY dept;
--> (None, 90, 90, 90, 90.0)
--> (1, 350, 150, 200, 175.0)
--> (2, 100, 100, 100, 100.0)
--> (9, 100, 100, 100, 100.0)

-- aggregates of nothing
SELECT count(*) AS n, sum(salary) AS s, max(name) AS m FROM emp WHERE id > 100;
--> (0, None, None)

-- groups of nothing
SELECT dept, count(*) AS n FROM emp WHERE id > 100 GROUP BY dept;
--> none

-- HAVING
SELECT dept FROM emp GROUP BY dept HAVING count(*) > 1 AND max(salary) > 100;
--> (1,)

-- GROUP BY an expression
SELECT salary > 100 AS rich, count(*) AS n FROM emp GROUP BY salary > 100;
--> (None, 1)
--> (False, 3)
--> (True, 2)

-- GROUP BY two columns
SELECT dept, boss, count(*) AS n FROM emp GROUP BY 1, 2;
--> (None, 1, 1)
--> (None, 2, 1)
--> (1, None, 1)
--> (1, 1, 1)
--> (2, None, 1)
--> (9, 2, 1)

-- rows that look alike count
SELECT sum(x) AS s FROM (SELECT d.id AS x FROM emp e JOIN dept d ON e.dept = d.id) j;
--> (4,)

-- UNION ALL counts both
SELECT count(*) AS n FROM (SELECT dept FROM emp UNION ALL SELECT id FROM dept) u;
--> (9,)

-- DISTINCT counts once
SELECT count(*) AS n FROM (SELECT DISTINCT dept FROM emp) u;
--> (4,)

-- FILTER
SELECT count(*) FILTER (WHERE salary > 100) AS rich, sum(salary) FILTER (WHERE dept = 1) AS s FROM emp;
--> (2, 350)

-- bool_and, bool_or
SELECT dept, bool_and(salary > 100) AS a, bool_or(salary > 100) AS o FROM emp GROUP BY dept;
--> (None, False, False)
--> (1, True, True)
--> (2, False, False)
--> (9, False, False)

-- an aggregate over an outer join
SELECT d.title, count(e.id) AS n FROM dept d LEFT JOIN emp e ON e.dept = d.id GROUP BY d.title;
--> ('food', 0)
--> ('sales', 1)
--> ('tools', 2)

-- UNION
SELECT dept FROM emp UNION SELECT id FROM dept;
--> (None,)
--> (1,)
--> (2,)
--> (3,)
--> (9,)

-- INTERSECT
SELECT dept FROM emp INTERSECT SELECT boss FROM emp;
--> (None,)
--> (1,)
--> (2,)

-- EXCEPT takes NULL for NULL
SELECT boss FROM emp EXCEPT SELECT dept FROM emp;
--> none

-- three at once
SELECT dept FROM emp UNION SELECT boss FROM emp INTERSECT SELECT id FROM dept;
--> (None,)
--> (1,)
--> (2,)
--> (9,)

-- VALUES
SELECT v.word, d.title FROM (VALUES (1, 'one'), (2, 'two')) AS v(n, word) LEFT JOIN dept d ON d.id = v.n;
--> ('one', 'tools')
--> ('two', 'sales')

-- WITH
WITH rich AS (SELECT * FROM emp WHERE salary > 100) SELECT a.name FROM rich a JOIN rich b ON a.boss = b.id;
--> ('bob',)

-- WITH RECURSIVE
WITH RECURSIVE up(who, top) AS (SELECT id, boss FROM emp WHERE boss IS NOT NULL UNION SELECT up.who, e.boss FROM up
JOIN emp e ON e.id = up.top WHERE e.boss IS NOT NULL) SELECT * FROM up;
--> (2, 1)
--> (3, 1)
--> (4, 1)
--> (4, 2)
--> (6, 1)
--> (6, 2)

-- recursion with a bound
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT i FROM n;
--> (1,)
--> (2,)
--> (3,)
--> (4,)

-- an aggregate over recursion
WITH RECURSIVE up(who, top) AS (SELECT id, boss FROM emp UNION SELECT up.who, e.boss FROM up JOIN emp e ON e.id =
up.top) SELECT who, count(top) AS n FROM up GROUP BY who;
--> (1, 0)
--> (2, 1)
--> (3, 1)
--> (4, 2)
--> (5, 0)
--> (6, 2)

-- dates
SELECT name FROM emp WHERE since < DATE '2021-01-01' OR since = '2022-05-01';
--> ('ann',)
--> ('bob',)
--> ('di',)
--> ('flo',)

-- decimals
SELECT name, bonus + 0.125 AS b FROM emp WHERE bonus >= 1.5;
--> ('ann', Decimal('2.625'))
--> ('cy', Decimal('1.625'))
--> ('flo', Decimal('1.625'))

-- the first rows
SELECT name, salary FROM emp ORDER BY salary DESC NULLS LAST, name LIMIT 3;
--> ('ann', 200)
--> ('bob', 150)
--> ('ed', 100)

-- rows after the first
SELECT name, id FROM emp ORDER BY id LIMIT 2 OFFSET 1;
--> ('bob', 2)
--> ('cy', 3)

-- the first rows of an inner query
SELECT count(*) AS n FROM (SELECT dept FROM emp ORDER BY salary, id LIMIT 4) AS few;
--> (4,)

-- an order that says nothing
SELECT name FROM emp WHERE salary > 100 ORDER BY name DESC;
--> ('ann',)
--> ('bob',)

-- ranks in a partition
SELECT name, rank() OVER (PARTITION BY dept ORDER BY salary DESC) AS place FROM emp WHERE dept IS NOT NULL;
--> ('ann', 1)
--> ('bob', 2)
--> ('ed', 1)
--> ('flo', 1)

-- a running sum
SELECT name, sum(salary) OVER (ORDER BY id) AS total, row_number() OVER (ORDER BY id DESC) AS place FROM emp;
--> ('ann', 200, 6)
--> ('bob', 350, 5)
--> ('cy', 350, 4)
--> ('di', 440, 3)
--> ('ed', 540, 2)
--> ('flo', 640, 1)

-- a difference with the row before
SELECT name, salary - lag(salary) OVER (ORDER BY id) AS more FROM emp;
--> ('ann', None)
--> ('bob', -50)
--> ('cy', None)
--> ('di', None)
--> ('ed', 10)
--> ('flo', 0)

-- ROLLUP
SELECT boss, count(*) AS n FROM emp GROUP BY ROLLUP (boss);
--> (None, 2)
--> (None, 6)
--> (1, 2)
--> (2, 2)

-- GROUPING SETS
SELECT dept, boss, count(*) AS n FROM emp WHERE dept = 1 GROUP BY GROUPING SETS ((dept), (boss), ());
--> (1, None, 2)
--> (None, None, 1)
--> (None, 1, 1)
--> (None, None, 2)

-- EXCEPT ALL
SELECT boss FROM emp EXCEPT ALL SELECT boss FROM emp WHERE id < 4;
--> (None,)
--> (2,)

-- INTERSECT ALL
SELECT dept FROM emp INTERSECT ALL SELECT id FROM dept;
--> (1,)
--> (2,)

-- functions on text
SELECT upper(name) AS u, lpad(name, 4, '.') AS p, replace(name, 'n', 'm') AS r, position('n' IN name) AS at FROM emp WHERE id = 1;
--> ('ANN', '.ann', 'amm', 2)

-- parts of dates
SELECT name, EXTRACT(year FROM since) AS y FROM emp WHERE since >= DATE '2022-05-01' - INTERVAL '1 month' AND since < DATE '2022-05-01' + 1;
--> ('di', 2022)

-- integers beside decimals
SELECT name, salary * 1.5 AS more FROM emp WHERE salary > 99.5 AND id < 3;
--> ('ann', Decimal('300.0'))
--> ('bob', Decimal('225.0'))

-- CROSS JOIN LATERAL with the first row of each
SELECT d.title, best.name FROM dept d CROSS JOIN LATERAL (SELECT e.name FROM emp e WHERE e.dept = d.id ORDER BY e.salary DESC LIMIT 1) AS best;
--> ('sales', 'ed')
--> ('tools', 'ann')

-- LEFT JOIN LATERAL
SELECT d.title, e.name FROM dept d LEFT JOIN LATERAL (SELECT name FROM emp WHERE emp.dept = d.id AND salary > 100) AS e ON TRUE;
--> ('food', None)
--> ('sales', None)
--> ('tools', 'ann')
--> ('tools', 'bob')

-- LATERAL that uses a LATERAL before it
SELECT e.name, b.x FROM emp e, LATERAL (SELECT e.salary * 2 AS twice) AS a, LATERAL (SELECT a.twice + 1) AS b(x);
--> ('ann', 401)
--> ('bob', 301)
--> ('cy', None)
--> ('di', 181)
--> ('ed', 201)
--> ('flo', 201)

-- LATERAL VALUES
SELECT e.name, v.kind, v.value FROM emp e CROSS JOIN LATERAL (VALUES ('salary', e.salary), ('dept', e.dept)) AS v(kind, value) WHERE e.id < 4;
--> ('ann', 'dept', 1)
--> ('ann', 'salary', 200)
--> ('bob', 'dept', 1)
--> ('bob', 'salary', 150)
--> ('cy', 'dept', None)
--> ('cy', 'salary', None)

-- an aggregate in LATERAL
SELECT d.id, s.n, s.total FROM dept d CROSS JOIN LATERAL (SELECT count(*) AS n, sum(salary) AS total FROM emp e WHERE e.dept = d.id) AS s;
--> (1, 2, 350)
--> (2, 1, 100)
--> (3, 0, None)

-- a sum over the rows of LATERAL
SELECT count(*) AS n, sum(l.x) AS s FROM dept d CROSS JOIN LATERAL (SELECT salary AS x FROM emp WHERE dept = d.id UNION ALL SELECT 1) AS l;
--> (6, 453)

-- LATERAL beside NULL
SELECT e.name, o.name AS other FROM emp e CROSS JOIN LATERAL (SELECT b.name FROM emp b WHERE b.dept IS NOT DISTINCT FROM e.dept AND b.id > e.id) AS o;
--> ('ann', 'bob')
--> ('cy', 'di')

-- a scalar subquery with LIMIT 1
SELECT d.title, (SELECT e.name FROM emp e WHERE e.dept = d.id ORDER BY e.id DESC LIMIT 1) AS last FROM dept d;
--> ('food', None)
--> ('sales', 'ed')
--> ('tools', 'bob')

-- a scalar subquery that finds by the key
SELECT e.name, (SELECT title FROM dept d WHERE d.id = e.dept) AS title FROM emp e;
--> ('ann', 'tools')
--> ('bob', 'tools')
--> ('cy', None)
--> ('di', None)
--> ('ed', 'sales')
--> ('flo', None)

-- a scalar subquery by the key in a condition
SELECT e.name FROM emp e WHERE e.salary < (SELECT b.salary FROM emp b WHERE b.id = e.boss);
--> ('bob',)
--> ('di',)
--> ('flo',)

-- a scalar subquery without FROM
SELECT e.name, (SELECT e.salary + e.id) AS s FROM emp e;
--> ('ann', 201)
--> ('bob', 152)
--> ('cy', None)
--> ('di', 94)
--> ('ed', 105)
--> ('flo', 106)

-- QUALIFY
SELECT name, salary FROM emp QUALIFY row_number() OVER (PARTITION BY dept ORDER BY salary DESC NULLS LAST, id) = 1;
--> ('ann', 200)
--> ('di', 90)
--> ('ed', 100)
--> ('flo', 100)

-- QUALIFY by the name of a column
SELECT name, rank() OVER (ORDER BY salary DESC NULLS LAST) AS place FROM emp QUALIFY place <= 2;
--> ('ann', 1)
--> ('bob', 2)

-- QUALIFY over groups
SELECT dept, count(*) AS n FROM emp GROUP BY dept QUALIFY rank() OVER (ORDER BY count(*) DESC) = 1;
--> (1, 2)
--> (None, 2)

-- DISTINCT ON
SELECT DISTINCT ON (dept) dept, name FROM emp ORDER BY dept, salary DESC NULLS LAST, id;
--> (1, 'ann')
--> (2, 'ed')
--> (9, 'flo')
--> (None, 'di')

-- DISTINCT ON inside a query
SELECT count(*) AS n FROM (SELECT DISTINCT ON (boss) boss, id FROM emp ORDER BY boss, id) AS q;
--> (3,)

-- a moving average
SELECT name, avg(salary) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS mean FROM emp;
--> ('ann', 175.0)
--> ('bob', 175.0)
--> ('cy', 120.0)
--> ('di', 95.0)
--> ('ed', 96.66666666666667)
--> ('flo', 100.0)

-- a sum to the end of the partition
SELECT name, sum(salary) OVER (PARTITION BY boss ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS rest FROM emp;
--> ('ann', 300)
--> ('bob', 150)
--> ('cy', None)
--> ('di', 190)
--> ('ed', 100)
--> ('flo', 100)

-- a frame before the row
SELECT name, count(*) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) AS n, max(salary) OVER (ORDER BY id ROWS BETWEEN 4 PRECEDING AND 3 PRECEDING) AS m FROM emp;
--> ('ann', 0, None)
--> ('bob', 0, None)
--> ('cy', 1, None)
--> ('di', 2, 200)
--> ('ed', 2, 200)
--> ('flo', 2, 150)

-- a frame of rows that are alike
SELECT name, sum(salary) OVER (ORDER BY boss RANGE BETWEEN CURRENT ROW AND CURRENT ROW) AS s FROM emp;
--> ('ann', 300)
--> ('bob', 150)
--> ('cy', 150)
--> ('di', 190)
--> ('ed', 300)
--> ('flo', 190)

-- a default of lag and lead
SELECT name, lag(salary, 1, 0) OVER (ORDER BY id) AS before, lead(name, 2, name) OVER (ORDER BY id) AS after FROM emp;
--> ('ann', 0, 'cy')
--> ('bob', 200, 'di')
--> ('cy', 150, 'ed')
--> ('di', None, 'flo')
--> ('ed', 90, 'ed')
--> ('flo', 100, 'flo')

-- percent_rank and cume_dist
SELECT name, percent_rank() OVER (ORDER BY boss) AS p, cume_dist() OVER (ORDER BY boss) AS c FROM emp;
--> ('ann', 0.8, 1.0)
--> ('bob', 0.0, 0.3333333333333333)
--> ('cy', 0.0, 0.3333333333333333)
--> ('di', 0.4, 0.6666666666666666)
--> ('ed', 0.8, 1.0)
--> ('flo', 0.4, 0.6666666666666666)

-- nth_value
SELECT name, nth_value(name, 2) OVER (PARTITION BY boss ORDER BY id) AS second FROM emp;
--> ('ann', None)
--> ('bob', None)
--> ('cy', 'cy')
--> ('di', None)
--> ('ed', 'ed')
--> ('flo', 'flo')

-- string_agg
SELECT dept, string_agg(name, ', ' ORDER BY name) AS names FROM emp GROUP BY dept;
--> (1, 'ann, bob')
--> (2, 'ed')
--> (9, 'flo')
--> (None, 'cy, di')

-- string_agg in another order
SELECT boss, string_agg(name, '|' ORDER BY salary DESC NULLS LAST, id) AS names FROM emp GROUP BY boss;
--> (1, 'bob|cy')
--> (2, 'flo|di')
--> (None, 'ann|ed')

-- string_agg of distinct texts
SELECT string_agg(DISTINCT CAST(salary AS TEXT), ',' ORDER BY CAST(salary AS TEXT)) AS s FROM emp;
--> ('100,150,200,90',)

-- string_agg that filters
SELECT dept, string_agg(name, ',' ORDER BY id) FILTER (WHERE salary > 100) AS s FROM emp GROUP BY dept;
--> (1, 'ann,bob')
--> (2, None)
--> (9, None)
--> (None, None)

-- string_agg for each row
SELECT d.title, (SELECT string_agg(e.name, '+' ORDER BY e.name) FROM emp e WHERE e.dept = d.id) AS s FROM dept d;
--> ('food', None)
--> ('sales', 'ed')
--> ('tools', 'ann+bob')
