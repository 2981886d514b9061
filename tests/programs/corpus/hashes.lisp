; A table of lists, made in one order and read in another.
(let ((table (make-hash-table :test 'equal))
      (sum 0))
  (dotimes (number 200000)
    (setf (gethash (format nil "key ~d" number) table) (list number (* number number))))
  (dotimes (number 200000)
    (incf sum (second (gethash (format nil "key ~d" (mod (* number 7919) 200000)) table))))
  (format t "~d~%" sum))
