f() { if [[ $1 =~ ^(a|b)$ ]]; then N=$(wc -l <<<"x"); else ((N += 2)); fi; }
for LR in 1e-4 3e-4; do case $LR in 1e-4|"x y") python a.py --lr $LR ;; (*) echo `date` ;; esac; done
cat <<-'END' > c.yaml
	a: $(not a command
	END
export A="x y" B='z' C=$'t\t' && env D=1 python -m pkg.train ++model.r=8 ~x.y z=[1,2] w=a,b > log 2>&1 &
CMD="accelerate launch --num_processes 2 t.py --bf16"; eval $CMD
