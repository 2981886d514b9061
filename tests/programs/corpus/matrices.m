numbers = reshape (mod ((1:4e6) * 7919, 1000003), 2000, 2000);
printf ("%d %d %d\n", sum (sort (numbers(:))(1:4000:end)), sum (diag (numbers)), sum (cumsum (numbers, 2)(:, end)));
