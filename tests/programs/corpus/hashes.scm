; A table of lists, made in one order and read in another.
(define table (make-hash-table))
(define size 150000)

(do ((number 0 (+ number 1)))
    ((= number size))
  (hash-set! table number (list number (number->string number))))

(define (sum number so-far)
  (if (= number size)
      so-far
      (let ((text (cadr (hash-ref table (modulo (* number 7919) size)))))
        (sum (+ number 1) (modulo (+ (* so-far 31) (string-length text)) 1000000007)))))

(display (sum 0 0))
(newline)
