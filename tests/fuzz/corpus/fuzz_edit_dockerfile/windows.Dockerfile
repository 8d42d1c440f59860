# escape=`
FROM a
ENV P=C:\x Q=1
CMD python train.py --lr 3 `
  --bs 4